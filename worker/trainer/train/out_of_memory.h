#pragma once

// Formats an error when a GPU runs out of memory: LibTorch's message is about its allocator.

#include <string>

namespace ringmaster::trainer {

// `what` is the text of c10::OutOfMemoryError, `needed_for` what was being made, `remedy` what the
// user can do. Says how much was asked for, and how much was free of how much, where `what` tells.
std::string OutOfMemorySentence(const std::string& what, const std::string& needed_for,
                                const std::string& remedy);

}  // namespace ringmaster::trainer
