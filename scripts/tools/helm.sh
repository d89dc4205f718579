#!/usr/bin/env bash
# Puts a Helm at .tools/bin/helm (main: the one on PATH if >= 3.17, else built by Go) or at
# .tools/helm3/helm (compare: the last Helm 3, for the tests). Usage: scripts/tools/helm.sh main|compare
set -euo pipefail
kind=${1:?usage: scripts/tools/helm.sh main|compare}

build() { # build MAJOR VERSION FOLDER: the linker flag sets the version as Helm's own releases do
  local module=helm.sh/helm/v$1 folder=$PWD/$3
  local options=(-trimpath -gcflags all=-dwarf=false -ldflags "-s -w -X $module/internal/version.version=v$2")
  echo "helm $2: building with Go, about two minutes, once" >&2
  export CGO_ENABLED=0
  # Helm 3 with the versions of libraries of the renderer, which has Helm 4, so that they are compiled once.
  if [[ $1 == 3 ]]; then go build -C tests/e2e/tools/renderer "${options[@]}" -o "$folder/" "$module/cmd/helm"
  else GOBIN=$folder go install "${options[@]}" "$module/cmd/helm@v$2"; fi 2>"$folder.log" || {
    cat "$folder.log" >&2
    echo "error: go could not build helm $2 (Go >= 1.26 is needed); or install Helm >= 3.17" >&2
    exit 1
  }
  rm -f "$folder.log"
}

if [[ $kind == compare ]]; then
  mkdir -p .tools/helm3
  if command -v go >/dev/null; then build 3 3.22.0 .tools/helm3; else
    echo "helm 3: not built, since Go is not installed; the tests that compare two Helm versions are skipped" >&2
  fi
  exit 0
fi

mkdir -p .tools/bin
found=$(type -P helm || true)
version=$([[ -n $found ]] && "$found" version --template '{{.Version}}' 2>/dev/null || echo none)
if [[ $version =~ ^v([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] >= 3017)); then
  ln -sfn "$found" .tools/bin/helm
elif command -v go >/dev/null; then
  build 4 4.3.1 .tools/bin
else
  echo "error: no Helm >= 3.17 on PATH (found: $version) and no Go to build it; install Helm >= 3.17, or Go >= 1.26" >&2
  exit 1
fi
