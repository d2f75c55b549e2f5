#pragma once

// Formats the error of a GPU without free memory. LibTorch's message describes only its allocator.

#include <string>

namespace ringmaster::trainer {

// `what` is the text of c10::OutOfMemoryError, `needed_for` names the use of the memory, and
// `remedy` advises the user. States the requested, free and total memory if `what` contains them.
std::string OutOfMemorySentence(const std::string& what, const std::string& needed_for,
                                const std::string& remedy);

}  // namespace ringmaster::trainer
