#!/usr/bin/env bash
# Builds tests/e2e/tools/NAME with Go into .tools/cluster/bin, at the versions of its go.mod and
# go.sum; of kubernetes-MINOR, another version of the control plane, into .tools/cluster/kubernetes-MINOR.
# Called by the Makefile only. Usage: scripts/tools/go.sh NAME
set -euo pipefail
name=${1:?usage: scripts/tools/go.sh NAME}
folder=tests/e2e/tools/$name
bin=$PWD/.tools/cluster/bin
flags="-s -w"
compiler="all=-dwarf=false" # "-s -w" drops it from the program anyway: an eighth of the time
what=tool

if ! command -v go >/dev/null; then
  echo "error: no Go to build $name; install Go >= 1.26" >&2
  exit 1
elif [[ ! -f $folder/go.mod ]]; then
  echo "error: $folder has no go.mod; the tools are the folders of tests/e2e/tools" >&2
  exit 1
fi
echo "setup: $name, built with Go"
if [[ $name == kubernetes-* ]]; then bin=$PWD/.tools/cluster/$name; fi
mkdir -p "$bin"
new=$(mktemp -d "$bin/.$name.XXXXXX")
trap 'rm -rf "$new"' EXIT
case $name in
  coredns | pause | promql | registry | renderer) what=. ;; # programs of this repository
  kubernetes | kubernetes-*) # without these flags its programs report v0.0.0, which a chart's kubeVersion refuses
    version=$(cd "$folder" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
    base=k8s.io/component-base/version
    IFS=. read -r major minor _ <<<"${version#v}"
    flags+=" -X $base.gitVersion=$version -X $base.gitMajor=$major -X $base.gitMinor=$minor"
    flags+=" -X $base.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=$version" ;;
esac
(cd "$folder" && CGO_ENABLED=0 go build -mod=readonly -buildvcs=false -trimpath -ldflags "$flags" \
  -gcflags "$compiler" -o "$new/" "$what") 2>"$new/log" || {
  tail -n 20 "$new/log" >&2
  echo "error: go could not build $name: see above (Go >= 1.26 and a Go module proxy are needed)" >&2
  exit 1
}
rm "$new/log"
# Renamed at the end: an interrupted build leaves no partial program, and a running one stays intact.
if [[ -f $new/server ]]; then mv "$new/server" "$new/etcd"; fi # the package of etcd is named server
mv -f "$new"/* "$bin/"
