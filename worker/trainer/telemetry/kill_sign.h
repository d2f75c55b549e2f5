#pragma once

// Lets the agent know at once when this process is killed, before the kernel has freed its memory
// and its GPU (kOwnerWord in common/control/position_page.h; the agent's side is
// process_table/kill_watch.h).

namespace ringmaster::trainer {

// Starts a thread that waits for as long as the process lives. `file` has the layout of
// common/control/position_page.h. Call it once per process. If the machine does not allow such a
// thread, the agent learns of the exit when it is complete.
void SignOfKillIn(int file);

}  // namespace ringmaster::trainer
