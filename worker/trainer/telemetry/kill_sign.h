#pragma once

// Lets the agent know at once when this process is killed, before the kernel has freed its memory
// and its GPU (kOwnerWord in common/control/position_page.h; the agent's side is
// process_table/kill_watch.h).

namespace ringmaster::trainer {

// From here on, for as long as the process lives, by a thread that waits; `file` has the layout of
// common/control/position_page.h. Once per process. Where the machine allows no such thread, the
// agent learns of the end when it is complete.
void SignOfKillIn(int file);

}  // namespace ringmaster::trainer
