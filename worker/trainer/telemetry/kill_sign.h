#pragma once

// Lets the agent learn immediately that this process was killed, before the kernel has freed its
// memory and its GPU (kOwnerWord in common/control/position_page.h; the agent uses
// process_table/kill_watch.h).

namespace ringmaster::trainer {

// Starts a thread that lives as long as the process and whose end the kernel marks in `file`, which
// has the layout of common/control/position_page.h. Call it once per process. If the machine does
// not allow such a thread, the agent learns of the exit only when the exit is complete.
void SignOfKillIn(int file);

}  // namespace ringmaster::trainer
