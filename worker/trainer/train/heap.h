#pragma once

// Configures the allocator of ringmaster-train. Every step allocates the same large tensors. If
// their memory were returned to the kernel, each page would be faulted in and cleared again, which
// takes a sixth of a step of the MNIST network.

namespace ringmaster::trainer {

// Keeps freed memory for the next step instead of returning it to the kernel. Call it once, before
// other threads start. Has no effect with allocators other than glibc's.
void KeepFreedMemory();

}  // namespace ringmaster::trainer
