#!/usr/bin/env bash
# Installs the pinned uv into .tools/uv with the pip of PYTHON. Usage: scripts/tools/uv.sh PYTHON
set -euo pipefail
python=${1:?usage: scripts/tools/uv.sh PYTHON}
version=0.13.8
folder=.tools/uv

if ! command -v "$python" >/dev/null; then
  echo "error: $python was not found; install Python >= 3.11, or name it: make PYTHON=python3.12" >&2
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "error: $python is $("$python" -V); Python >= 3.11 is required: make PYTHON=python3.12" >&2
  exit 1
fi

rm -rf "$folder"
if "$python" -c 'import ensurepip' 2>/dev/null; then
  "$python" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet "uv==$version"
elif "$python" -m pip --version >/dev/null 2>&1; then
  # Debian without python3-venv: pip alone installs the program at the same path.
  "$python" -m pip install --quiet --target "$folder" "uv==$version"
else
  echo "error: $python has neither ensurepip nor pip; install one of them (Debian: apt install python3-venv)" >&2
  exit 1
fi
