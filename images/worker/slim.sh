#!/bin/bash
# Removes the packages that a worker's programs do not need from the root file system that it runs in.
# Usage: slim.sh BEFORE   (a file with the names of the packages that were there first: those stay)
#
# Distributions link Open MPI with many libraries (GPU runtimes, X11). Needed are only a few files and, recursively, the shared
# libraries that they load: the libraries of our programs, sshd and ssh, mpirun and its daemons, Open MPI's plugins.
# A package without a needed file is purged even if others depend on it; dpkg's list stays correct. To install packages into the
# image, run `apt-get --fix-broken install` first.
set -euo pipefail
shopt -s nullglob
before=$1
libraries=/usr/lib/$(uname -m)-linux-gnu

# Remove the plugins for devices that a CPU worker does not have; other files of their packages are needed.
rm -f "$libraries"/ucx/libu*_{rocm,cuda,ze}* "$libraries"/openmpi/lib/openmpi3/mca_btl_openib.so

roots=(
  "$libraries"/{libmpi,libspdlog,libfmt,libssl}.so*
  {/usr/lib,"$libraries"}/libnss_extrausers.so*
  /usr/sbin/sshd /usr/lib/openssh/* /usr/bin/{ssh,ssh-keygen,ssh-keyscan,ssh-add,ssh-agent,scp,sftp,ps,top,pgrep}
  /usr/bin/{mpirun,mpirun.openmpi,orterun,orted,prterun,prte,prted,ompi_info,prte_info,pmix_info}
  "$libraries"/openmpi/lib/*.so* "$libraries"/openmpi/lib/openmpi*/*.so "$libraries"/pmix2/lib/pmix/*.so
  "$libraries"/ucx/*.so*
)
# Packages kept for their data or maintainer scripts, which cannot be found through the libraries that programs load.
keep=(openssh-client openssh-server openssh-sftp-server openmpi-bin openmpi-common libpmix-bin procps libnss-extrausers)

files=()
for root in "${roots[@]}"; do
  [ ! -e "$root" ] || files+=("$(readlink -f "$root")")
done

# ldd fails for files that are scripts; they need no libraries.
libraries_of() { for file in "$@"; do ldd "$file" 2>/dev/null || true; done; }

check_resolved() { # WHEN
  local file missing
  for file in "${files[@]}"; do
    missing=$(libraries_of "$file" | sed -n 's/ => not found//p' | tr -d '\t' | tr '\n' ' ')
    [ -z "$missing" ] || { echo "slim.sh, $1: $file does not find $missing" >&2 && exit 1; }
  done
}

check_resolved "before anything was removed"

# dpkg lists some files under /lib and others under /usr/lib, of which /lib is a link: ask for both names.
needed=$(mktemp)
{
  printf '%s\n' "${files[@]}"
  libraries_of "${files[@]}" | grep -o '/[^ ]*' | sort -u | xargs readlink -f
} | sort -u | sed 'p; s|^/usr/|/|' |
  (xargs dpkg-query --search 2>/dev/null || true) | sed 's/: .*//; s/, /\n/g' | sed 's/:.*//' | sort -u >"$needed"

declare -A stays
while read -r name; do stays[$name]=1; done < <(printf '%s\n' "${keep[@]}" && cat "$before" "$needed")
doomed=()
while read -r package; do
  [ -n "${stays[${package%%:*}]:-}" ] || doomed+=("$package")
done < <(dpkg-query -W -f '${binary:Package}\n')

echo "slim.sh: purging ${#doomed[@]} of the installed packages: ${doomed[*]}"
[ ${#doomed[@]} -eq 0 ] || dpkg --purge --force-depends "${doomed[@]}" >/dev/null 2>/tmp/slim.log || { cat /tmp/slim.log >&2 && exit 1; }
rm -f /tmp/slim.log "$needed"

check_resolved "removed too much"
