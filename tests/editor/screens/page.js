// An editor of one values file, which knows the chart's schema.
import "monaco-editor/esm/vs/editor/editor.all.js";
import "monaco-editor/esm/vs/basic-languages/yaml/yaml.contribution.js";
import * as monaco from "monaco-editor/esm/vs/editor/editor.api.js";
import { configureMonacoYaml } from "monaco-yaml";

window.MonacoEnvironment = {
  getWorker: (_, label) => new Worker(label === "yaml" ? "yaml.worker.js" : "editor.worker.js"),
};

window.open_file = (schema, text) => {
  configureMonacoYaml(monaco, {
    schemas: [{ fileMatch: ["**/values.yaml"], schema, uri: "https://example.com/values.schema.json" }],
  });
  const model = monaco.editor.createModel(text, "yaml", monaco.Uri.parse("file:///values.yaml"));
  const editor = monaco.editor.create(document.getElementById("editor"), {
    model,
    fontSize: 15,
    minimap: { enabled: false },
    scrollbar: { vertical: "hidden", horizontal: "hidden" },
    overviewRulerLanes: 0,
    wordBasedSuggestions: "off",
  });
  editor.setPosition(model.getFullModelRange().getEndPosition());
  editor.focus();
  window.editor = editor;
};

// Both return whether the editor shows what they are named after, and ask for it otherwise.
window.suggestions = () => {
  if (document.querySelector(".suggest-widget.visible .monaco-list-row")) return true;
  window.editor.trigger("screens", "editor.action.triggerSuggest", {});
  return false;
};
window.description = () => {
  if (document.querySelector(".suggest-details-container .suggest-details:not(.no-docs) .docs")) return true;
  window.editor.trigger("screens", "toggleSuggestionDetails", {});
  return false;
};
