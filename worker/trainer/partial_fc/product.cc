#include "worker/trainer/partial_fc/product.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <ATen/Parallel.h>

#include "worker/trainer/numeric/vectorised.h"

namespace ringmaster::trainer::partial_fc {
namespace {

constexpr int64_t kBlockRows = 6;  // kBlockRows × kPanel sums fill the registers of AVX2
constexpr int64_t kPanel = 16;     // columns

// kPanel adjacent floats; the compiler splits them into the registers that the processor has.
using Lanes = float __attribute__((vector_size(kPanel * sizeof(float))));

// `panel` is inner × kPanel, without gaps. Rows beyond `rows` are computed as copies of the last
// row and dropped.
RINGMASTER_VECTORISED void MultiplyPanel(const Product& product, const float* panel,
                                         int64_t first_column, int64_t columns) {
  const MatrixView& left = product.left;
  for (int64_t row = 0; row < product.rows; row += kBlockRows) {
    const float* lefts[kBlockRows];
    Lanes sums[kBlockRows] = {};
    for (int64_t r = 0; r < kBlockRows; ++r) {
      lefts[r] = left.data + std::min(row + r, product.rows - 1) * left.row_step;
    }
    for (int64_t k = 0; k < product.inner; ++k) {
      Lanes right;
      std::memcpy(&right, panel + k * kPanel, sizeof(right));
      for (int64_t r = 0; r < kBlockRows; ++r) sums[r] += lefts[r][k * left.column_step] * right;
    }
    for (int64_t r = 0; r < std::min(kBlockRows, product.rows - row); ++r) {
      float* out = product.out + (row + r) * product.out_step + first_column;
      if (product.add) {
        for (int64_t c = 0; c < columns; ++c) out[c] += sums[r][c];
      } else {
        for (int64_t c = 0; c < columns; ++c) out[c] = sums[r][c];
      }
    }
  }
}

// Copies the columns [first, first + columns) of `right` and pads them with zeros.
void Pack(const Product& product, int64_t first, int64_t columns, float* panel) {
  for (int64_t k = 0; k < product.inner; ++k) {
    const float* from = product.right + k * product.right_step + first;
    float* to = panel + k * kPanel;
    std::copy_n(from, columns, to);
    std::fill(to + columns, to + kPanel, 0.0F);
  }
}

}  // namespace

void Multiply(const Product& product) {
  if (product.rows == 0) return;
  const int64_t panels = (product.columns + kPanel - 1) / kPanel;
  at::parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> panel(static_cast<std::size_t>(product.inner * kPanel));
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanel;
      const int64_t columns = std::min(kPanel, product.columns - first);
      Pack(product, first, columns, panel.data());
      MultiplyPanel(product, panel.data(), first, columns);
    }
  });
}

}  // namespace ringmaster::trainer::partial_fc
