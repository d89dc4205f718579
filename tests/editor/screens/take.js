// Writes the pictures of values/completion: `node take.js CHROMIUM SCHEMA TARGET`, by `make screenshots`.
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { build } from "esbuild-wasm";
import { chromium } from "playwright-core";

const [executablePath, schemaFile, target] = process.argv.slice(2);
// Text of a values file up to the cursor, and how far down the list the choice is moved.
const files = {
  key: ["nodes: 2\nkueue:\n  queue: team-a\n  ", 2],
  flag: ["recipe:\n  model: hf://Qwen/Qwen3-30B-A3B@main\n  args:\n    lr: 1e-6\n    moe_", 0],
  choice: ["stages:\n  placement: ", 1],
};
const size = { width: 1100, height: 300 };
const html = '<!doctype html><link rel="stylesheet" href="page.css"><style>body { margin: 0 }</style>'
  + `<div id="editor" style="width: ${size.width}px; height: ${size.height}px"></div><script src="page.js"></script>`;

const folder = await mkdtemp(join(tmpdir(), "megatron-dpo-screens-"));
const entry = (out, file) => ({ in: file, out });
await build({
  entryPoints: [
    entry("page", "page.js"),
    entry("editor.worker", "node_modules/monaco-editor/esm/vs/editor/editor.worker.js"),
    entry("yaml.worker", "node_modules/monaco-yaml/yaml.worker.js"),
  ],
  bundle: true,
  format: "iife",
  loader: { ".ttf": "dataurl" },
  logLevel: "error",
  outdir: folder,
});

const types = { ".js": "text/javascript", ".css": "text/css" };
const server = createServer(async (request, response) => {
  const name = request.url.slice(1);
  if (!name) return response.setHeader("Content-Type", "text/html").end(html);
  try {
    const content = await readFile(join(folder, name.replaceAll("/", "")));
    response.setHeader("Content-Type", types[extname(name)] ?? "application/octet-stream").end(content);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const schema = JSON.parse(await readFile(schemaFile, "utf-8"));
  await mkdir(target, { recursive: true });
  for (const [name, [text, down]] of Object.entries(files)) {
    const page = await browser.newPage({ viewport: size });
    page.on("pageerror", (error) => console.error(`${name}: ${error.message}`));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.evaluate(([given, content]) => window.open_file(given, content), [schema, text]);
    for (const wanted of ["suggestions", "description"]) {
      await page.waitForFunction((shown) => window[shown](), wanted, { polling: 2000, timeout: 60000 });
    }
    for (let step = 0; step < down; step++) await page.keyboard.press("ArrowDown");
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 1000)));
    await page.screenshot({ path: join(target, `${name}.png`) });
    console.log(join(target, `${name}.png`));
  }
} finally {
  await browser.close();
  server.close();
  await rm(folder, { recursive: true });
}
