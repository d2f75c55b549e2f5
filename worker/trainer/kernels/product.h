#pragma once

// Implements partial_fc/product.h on a GPU. For all shapes, every element of a result is one sum
// over the inner dimension, in order, by fused multiply-add. Arrays are in GPU memory. Functions
// queue work on `stream` (a cudaStream_t) and return CUDA's error number, 0 for success.

#include <cstdint>

#include "worker/trainer/partial_fc/product.h"

namespace ringmaster::trainer::partial_fc {

int LaunchProduct(const Product& product, void* stream);

// Use it for results with few elements, for which LaunchProduct() would leave most of the GPU idle.
// Splits the inner dimension into `parts` and adds their sums in order. `memory` must have room for
// parts × rows × columns floats. The bits of the result depend on `parts`.
int LaunchProductInParts(const Product& product, int parts, float* memory, void* stream);

}  // namespace ringmaster::trainer::partial_fc
