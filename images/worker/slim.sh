#!/bin/bash
# Removes from the root file system it runs in what a worker's programs cannot reach.
# Usage: slim.sh BEFORE   (a file with the names of the packages that were there first: those stay)
#
# Distributions link Open MPI with everything (GPU run times, X11). What is needed is the closure of shared libraries of a
# few roots: what our programs are linked with, sshd and ssh, mpirun and its daemons, Open MPI's plugins.
# A package that owns nothing of this closure is purged even if others depend on it. dpkg's list then says what is really
# there; who wants to install packages into the image runs `apt-get --fix-broken install` first.
set -euo pipefail
shopt -s nullglob
before=$1
libraries=/usr/lib/$(uname -m)-linux-gnu

# Plugins for devices that a CPU worker has not; their packages' other files are needed.
rm -f "$libraries"/ucx/libu*_{rocm,cuda,ze}* "$libraries"/openmpi/lib/openmpi3/mca_btl_openib.so

roots=(
  "$libraries"/{libmpi,libspdlog,libfmt,libssl}.so*
  {/usr/lib,"$libraries"}/libnss_extrausers.so*
  /usr/sbin/sshd /usr/lib/openssh/* /usr/bin/{ssh,ssh-keygen,ssh-keyscan,ssh-add,ssh-agent,scp,sftp,ps,top,pgrep}
  /usr/bin/{mpirun,mpirun.openmpi,orterun,orted,prterun,prte,prted,ompi_info,prte_info,pmix_info}
  "$libraries"/openmpi/lib/*.so* "$libraries"/openmpi/lib/openmpi*/*.so "$libraries"/pmix2/lib/pmix/*.so
  "$libraries"/ucx/*.so*
)
# Kept for data or maintainer scripts, which no closure of libraries shows.
keep=(openssh-client openssh-server openssh-sftp-server openmpi-bin openmpi-common libpmix-bin procps libnss-extrausers)

files=()
for root in "${roots[@]}"; do
  [ ! -e "$root" ] || files+=("$(readlink -f "$root")")
done

# ldd fails for the scripts among the roots, which need nothing.
libraries_of() { for file in "$@"; do ldd "$file" 2>/dev/null || true; done; }

check_resolved() { # WHEN
  local file missing
  for file in "${files[@]}"; do
    missing=$(libraries_of "$file" | sed -n 's/ => not found//p' | tr -d '\t' | tr '\n' ' ')
    [ -z "$missing" ] || { echo "slim.sh, $1: $file does not find $missing" >&2 && exit 1; }
  done
}

check_resolved "before anything was removed"

# dpkg knows some files by the name they had before /lib became a link to /usr/lib: ask for both.
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
