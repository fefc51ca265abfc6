#!/bin/sh
# Install twofold from this folder into an environment of its own: no network, no compiler, no root.
#   sh install.sh ~/twofold          then: ~/twofold/bin/twofold --help
# PYTHON=python3.11 sh install.sh ~/twofold     takes another interpreter
set -eu
umask 022

if [ $# -ne 1 ]; then
  echo "usage: sh install.sh FOLDER" >&2
  exit 2
fi
python=${PYTHON:-python3}
target=$1
here=$(cd "$(dirname "$0")" && pwd)

if [ -e "$target" ]; then
  echo "install.sh: $target exists already; give a folder that does not, or remove it" >&2
  exit 2
fi

# The wheels are for one version of Python and one platform: their names say which.
bundle=$(basename "$here")
found=$("$python" -c 'import sys, sysconfig; print("cp%d%d-%s" % (*sys.version_info[:2], sysconfig.get_platform().replace("-", "_")))')
case $bundle in
  *-"$found") ;;
  *) echo "install.sh: this bundle is $bundle, but $python is $found; set PYTHON=..." >&2; exit 2 ;;
esac

(cd "$here" && sha256sum --quiet --strict -c SHA256SUMS) || {
  echo "install.sh: the files are not those that were packed; nothing was installed" >&2
  exit 1
}

"$python" -m venv "$target" || {
  echo "install.sh: $python cannot make an environment; on Debian and Ubuntu, python3-venv is missing" >&2
  exit 1
}
# --isolated: no index or proxy of this machine's pip configuration is asked.
"$target/bin/python" -m pip --isolated --disable-pip-version-check --quiet install \
  --no-index --no-deps --require-hashes --find-links "$here/wheels" -r "$here/requirements.txt"
"$target/bin/python" -m pip --isolated --disable-pip-version-check check
"$target/bin/twofold" --version
