#pragma once

// Handles the signal by which the agent requests a thread's stack (process_table/stack_capture.h of
// the agent). The handler writes the stack behind the position page. It allocates nothing and takes
// none of our locks, so it works wherever the thread is blocked.

namespace ringmaster::trainer {

// Installs the handler until the process ends. `file` has the layout of
// common/control/position_page.h and must stay open. Call it once per process.
void WriteStacksTo(int file);

}  // namespace ringmaster::trainer
