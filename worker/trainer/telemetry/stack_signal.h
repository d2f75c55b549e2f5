#pragma once

// The agent's question where a thread of this rank is (worker/agent/process_table/stack_capture.h):
// a signal to that thread, whose handler writes its stack behind the position page. The handler
// allocates nothing and takes no lock of ours, so it answers from wherever the thread is held up.

namespace ringmaster::trainer {

// From here on, for as long as the process lives; `file` has the layout of
// common/control/position_page.h and stays open. Once per process.
void WriteStacksTo(int file);

}  // namespace ringmaster::trainer
