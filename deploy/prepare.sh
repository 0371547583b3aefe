#!/usr/bin/env bash
# Prepares a checkout on Debian or Ubuntu: says what will be installed and how large, then installs what is missing.
#
#   deploy/prepare.sh demo|test    what `make demo` needs, or what the tests need as well
#
# PYTHON chooses the interpreter (>= 3.11), TORCH_INDEX_URL the package index that torch comes from. All talk goes to
# stderr: stdout stays free for what is run afterwards.
set -euo pipefail
exec 1>&2
cd "$(dirname "$0")/.."
mode=${1:?demo or test}
venv=.venv
TORCH=$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' constraints-dev.txt)

main() {
  find_python
  install_system_packages
  make_venv
  install_python_packages
}

find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python=$candidate
      return
    fi
  done
  echo "Python >= 3.11 is needed; python3 here is: $(python3 --version 2>&1 || true)"
  echo "Install a newer one, or name it: make $mode PYTHON=/path/to/python3.12"
  exit 1
}

# Packages by what they are looked for as. A test whose package cannot be had says so in its skip reason.
install_system_packages() {
  local missing=()
  have tmux || missing+=(tmux)
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  if [ "$mode" = test ]; then
    have lxc-create || missing+=(lxc)
    have sshd || missing+=(openssh-server)
    have tini || missing+=(tini)
    have sudo || [ "$(id -u)" != 0 ] || missing+=(sudo)
    have ip || missing+=(iproute2)
    have chromium || have chromium-browser || have google-chrome || missing+=(chromium)
  fi
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! have apt-get; then
    echo "Missing: ${missing[*]}. There is no apt-get here: install them by the means of this system."
    needed_for_demo "${missing[@]}"
    return 0
  fi
  local root=()
  if [ "$(id -u)" != 0 ]; then
    if ! have sudo; then
      echo "Missing: ${missing[*]}. Installing them needs root, and there is no sudo. As root:"
      echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
      needed_for_demo "${missing[@]}"
      return 0
    fi
    root=(sudo)
  fi
  echo "System packages to be installed with apt-get (this needs root${root[0]:+, by sudo}): ${missing[*]}"
  "${root[@]}" apt-get update -qq || echo "The package lists could not be renewed; going on with those that are there."
  local archives
  archives=$(apt-get install --no-install-recommends --print-uris -qq "${missing[@]}" 2>/dev/null || true)
  echo "$archives" | awk '{ bytes += $3 } END { printf "  %d archives, %.0f MB to download\n", NR, bytes / 1e6 }'
  # One by one where all at once fails: a package that this release does not have must not cost the others.
  apt_install "${missing[@]}" || {
    local package
    for package in "${missing[@]}"; do
      apt_install "$package" || echo "$package could not be installed."
    done
  }
  needed_for_demo "${missing[@]}"
}

apt_install() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

needed_for_demo() {
  local package
  for package in "$@"; do
    case $package in
      tmux) have tmux || { echo "Without tmux nothing can be launched."; exit 1; } ;;
      python3-venv) "$python" -c 'import ensurepip, venv' || { echo "Without python3-venv nothing goes on."; exit 1; } ;;
    esac
  done
}

make_venv() {
  [ -x "$venv/bin/python" ] && "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && return
  echo "Python packages go to $venv ($("$python" --version)); remove that folder to undo it."
  "$python" -m venv "$venv"
}

install_python_packages() {
  local stamp wanted
  stamp=$venv/.prepared-$mode
  wanted=$(cat pyproject.toml constraints-dev.txt deploy/prepare.sh | sha256sum)
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return
  echo "Python packages to be installed: Vigil with its libraries (60 MB), the trainer's (numpy, transformers, safetensors:"
  echo "  150 MB) and $TORCH: 0.8 GB as a CPU build, up to 5 GB with CUDA; TORCH_INDEX_URL=… chooses the index of torch."
  if [ "$mode" = test ]; then echo "  For the tests: pytest, mypy, ruff, playwright and others (250 MB)."; fi
  local pip=("$venv/bin/python" -m pip --disable-pip-version-check install -q -c constraints-dev.txt)
  "$venv/bin/python" -m pip --version | awk '{ split($2, v, "."); exit !(v[1] * 100 + v[2] < 2501) }' &&
    "${pip[@]}" --upgrade 'pip>=25.1' # --group needs it
  if [ -n "${TORCH_INDEX_URL:-}" ]; then
    "${pip[@]}" --no-deps --index-url "$TORCH_INDEX_URL" "$TORCH"
  fi
  if [ "$mode" = test ]; then
    "${pip[@]}" -e '.[trainer]' --group dev
  else
    "${pip[@]}" -e '.[trainer]'
  fi
  echo "$wanted" >"$stamp"
}

have() {
  PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null
}

main
