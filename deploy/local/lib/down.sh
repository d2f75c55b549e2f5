# shellcheck shell=bash
# Undoes what the record of a cluster lists, newest first, and then removes its state. Can run twice, and after an incomplete `up`.

kill_recorded_processes() {
  local pid started
  while IFS=$'\t' read -r _ pid started; do
    # All state is deleted, so the processes need no time to save anything: SIGKILL is enough.
    [ "$(start_time "$pid")" != "$started" ] || kill -9 "$pid" 2>/dev/null || true
  done < <(recorded process)
}

still_running() {
  local pid started
  while IFS=$'\t' read -r _ pid started; do
    [ "$(start_time "$pid")" != "$started" ] || return 0
  done < <(recorded process)
  return 1
}

stop_cluster() {
  local deadline=$((SECONDS + 10))
  [ -d "$STATE" ] || return 0
  kill_recorded_processes
  while still_running && [ $SECONDS -lt $deadline ]; do sleep 0.02; done
  if [ -n "$(recorded netns)$(recorded cgroup)$(recorded link)" ]; then stop_nodes; fi
  machine_wide release_shared
  recorded directory | xargs -r rm -rf
  if grep -q " $STATE/" /proc/mounts; then
    die "something is still mounted under $STATE; nothing there was deleted: $(awk -v s="$STATE/" 'index($2, s) == 1 {print $2}' /proc/mounts | tr '\n' ' ')"
  fi
  rm -rf --one-file-system "$STATE"
  rm -f "$BASE/.$NAME.lock"
}
