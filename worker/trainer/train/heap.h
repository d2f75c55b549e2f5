#pragma once

namespace ringmaster::trainer {

// Keeps memory that was freed for the next step, instead of giving it back to the kernel. Every
// step allocates the same large tensors; given back, each of their pages is faulted in and cleared
// again, a sixth of a step of the MNIST network. Called once, before other threads start. No effect
// with allocators other than glibc's.
void KeepFreedMemory();

}  // namespace ringmaster::trainer
