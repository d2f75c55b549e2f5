#pragma once

// The matrix product of the head. Every element of a result is one sum over the inner dimension,
// from begin to end, for all shapes, so the same rows give the same bits in a shard of any size.
// Replays on copies need this property, and BLAS libraries do not guarantee it.

#include <cstdint>

namespace ringmaster::trainer::partial_fc {

// Element (row, column) is at data[row * row_step + column * column_step].
struct MatrixView {
  const float* data = nullptr;
  int64_t row_step = 0;
  int64_t column_step = 1;
};

// out = left · right, or out += left · right. `left` is rows × inner; `right` is inner × columns.
// Rows of `right` and `out` are `right_step` and `out_step` floats apart. Uses LibTorch's threads.
struct Product {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t inner = 0;
  MatrixView left;
  const float* right = nullptr;
  int64_t right_step = 0;
  float* out = nullptr;
  int64_t out_step = 0;
  bool add = false;
};
void Multiply(const Product& product);

}  // namespace ringmaster::trainer::partial_fc
