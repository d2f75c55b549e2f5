#pragma once

// What a user is told when a GPU's memory runs out: LibTorch's own text is about its allocator.

#include <string>

namespace ringmaster::trainer {

// `what` is the text of c10::OutOfMemoryError. Says how much was asked for, how much was free of
// how much, where `what` tells, and what to lower.
std::string OutOfMemorySentence(const std::string& what);

}  // namespace ringmaster::trainer
