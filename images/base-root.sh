#!/bin/bash
# Makes a minimal Debian root file system. Usage: base-root.sh SUITE FILE.tar
# Packages come from the Debian mirror that this machine's apt uses, or from mmdebstrap's default mirror if apt has none.
set -euo pipefail
suite=$1 file=$2

# apt prints lines such as "http://…/debian/ bookworm-updates": keep the mirror, and replace the release with the suite.
# shellcheck disable=SC2016 # apt expands these itself
sources=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
  sed -n "s|^\([^ ]*\) [a-z]*|deb \1 $suite|p" | sed 's/$/ main/' | sort -u)
from=()
[ -z "$sources" ] || from=(-)

# shellcheck disable=SC2016 # mmdebstrap runs the hook with the root as $1
mmdebstrap --mode=root --variant=minbase \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --customize-hook='rm -f "$1"/etc/resolv.conf "$1"/etc/hostname' \
  "$suite" "$file" "${from[@]}" <<<"$sources"
