#pragma once

// Handles the signal by which the agent requests a thread's stack (process_table/stack_capture.h of
// the agent). The handler writes the stack to the file of the position page, after the page. It
// does not allocate memory or lock mutexes of this program, so it can interrupt any code.

namespace ringmaster::trainer {

// Installs the handler until the process ends. `file` has the layout of
// common/control/position_page.h and must stay open. Call it once per process.
void WriteStacksTo(int file);

}  // namespace ringmaster::trainer
