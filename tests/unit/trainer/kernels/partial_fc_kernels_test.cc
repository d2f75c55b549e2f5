// Tests the GPU kernels for partial-fc on the host (cuda_on_host/): their results must agree with
// those of the host's code, and the result for a row must not depend on other rows.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "worker/trainer/kernels/centre_rows.h"
#include "worker/trainer/kernels/launch.h"
#include "worker/trainer/kernels/margin_softmax.h"
#include "worker/trainer/kernels/product.h"
#include "worker/trainer/partial_fc/class_sampling.h"
#include "worker/trainer/partial_fc/exponential.h"
#include "worker/trainer/partial_fc/rows.h"

namespace ringmaster::trainer::partial_fc {
namespace {

std::vector<float> Waves(std::size_t count, float seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::sin(seed + 0.7F * static_cast<float>(i % 9973));
  }
  return values;
}

struct Shape {
  int64_t rows, columns, inner;
};

// Sizes that exceed a multiple of a block's tile by one, and smaller odd sizes.
constexpr Shape kShapes[]{{1, 1, 1}, {3, 5, 9}, {129, 130, 20}, {40, 257, 8}, {200, 7, 33}};

class ProductKernel : public testing::TestWithParam<Shape> {
 protected:
  // Expects the correct product. `transposed`: the left matrix is stored by columns.
  void Expect(bool transposed, int parts) {
    const auto [rows, columns, inner] = GetParam();
    const std::vector<float> left = Waves(static_cast<std::size_t>(rows * inner), 1);
    const std::vector<float> right = Waves(static_cast<std::size_t>(inner * columns), 2);
    std::vector<float> out(static_cast<std::size_t>(rows * columns), 0.5F);
    std::vector<float> memory(out.size() * static_cast<std::size_t>(parts));
    const Product product{.rows = rows,
                          .columns = columns,
                          .inner = inner,
                          .left = {.data = left.data(),
                                   .row_step = transposed ? 1 : inner,
                                   .column_step = transposed ? rows : 1},
                          .right = right.data(),
                          .right_step = columns,
                          .out = out.data(),
                          .out_step = columns,
                          .add = true};
    ASSERT_EQ(parts == 1 ? LaunchProduct(product, nullptr)
                         : LaunchProductInParts(product, parts, memory.data(), nullptr),
              0);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        double exact = 0.5;
        for (int64_t k = 0; k < inner; ++k) {
          const int64_t at = transposed ? k * rows + row : row * inner + k;
          exact += static_cast<double>(left[static_cast<std::size_t>(at)]) *
                   right[static_cast<std::size_t>(k * columns + column)];
        }
        ASSERT_NEAR(out[static_cast<std::size_t>(row * columns + column)], exact, 1e-4)
            << row << ' ' << column;
      }
    }
  }
};

TEST_P(ProductKernel, IsTheProduct) { Expect(false, 1); }
TEST_P(ProductKernel, OfATransposedMatrixToo) { Expect(true, 1); }
TEST_P(ProductKernel, InPartsToo) { Expect(true, 3); }
INSTANTIATE_TEST_SUITE_P(Shapes, ProductKernel, testing::ValuesIn(kShapes));

TEST(ProductKernels, AnElementDoesNotDependOnTheShape) {
  constexpr int64_t kRows = 150;
  constexpr int64_t kInner = 21;
  constexpr int64_t kColumns = 9;
  const std::vector<float> left = Waves(kRows * kInner, 3);
  const std::vector<float> right = Waves(kInner * kColumns, 4);
  const auto multiply = [&](int64_t first, int64_t rows) {
    std::vector<float> out(static_cast<std::size_t>(rows * kColumns));
    EXPECT_EQ(LaunchProduct({.rows = rows,
                             .columns = kColumns,
                             .inner = kInner,
                             .left = {.data = left.data() + first * kInner, .row_step = kInner},
                             .right = right.data(),
                             .right_step = kColumns,
                             .out = out.data(),
                             .out_step = kColumns},
                            nullptr),
              0);
    return out;
  };
  const std::vector<float> all = multiply(0, kRows);
  for (const int64_t first : {0, 77, 127, 149}) {
    const std::vector<float> part = multiply(first, kRows - first);
    EXPECT_TRUE(std::ranges::equal(
        part, std::span(all).subspan(static_cast<std::size_t>(first * kColumns))))
        << first;
  }
}

TEST(CentreRowsKernel, InitialRowsAreThoseOfTheHostToRounding) {
  constexpr int64_t kWidth = 19;
  const Rows host = Rows::Initial({5, 60}, kWidth, 9);
  Rows made({5, 60}, kWidth);
  std::ranges::fill(made.values(), 7.0F);
  ASSERT_EQ(LaunchInitialRows(9, 5, kWidth, made.values().data(), 55, nullptr), 0);
  for (std::size_t i = 0; i < host.values().size(); ++i) {
    EXPECT_NEAR(made.values()[i], host.values()[i], 1e-7) << i;
  }
}

TEST(CentreRowsKernel, DrawsTheClassesThatTheHostDraws) {
  const FewBlocks few(1);
  for (const ClassRange range : {ClassRange{0, 2000}, ClassRange{3, 999}, ClassRange{6, 7}}) {
    const auto drawn = std::make_unique<bool[]>(static_cast<std::size_t>(range.size()));
    ASSERT_EQ(LaunchDrawClasses(3, 12, 0.3F, range.begin, drawn.get(), range.size(), nullptr), 0);
    std::vector<int64_t> classes;
    for (int64_t i = 0; i < range.size(); ++i) {
      if (drawn[static_cast<std::size_t>(i)]) classes.push_back(range.begin + i);
    }
    EXPECT_EQ(classes, SampledClasses({.seed = 3, .rate = 0.3}, 12, {}, range));
  }
}

TEST(CentreRowsKernel, ChecksumsAreTheHosts) {
  const FewBlocks few(1);
  constexpr int64_t kWidth = 21;
  const Rows rows = Rows::Initial({40, 340}, kWidth, 2);
  const std::vector<int64_t> some{0, 3, 150, 299};
  uint64_t all = 5;
  uint64_t of_some = 0;
  const auto add = [&](const std::vector<int64_t>* index, int64_t count, uint64_t* sum) {
    return LaunchRowChecksums(40, 2 * kWidth, rows.values().data(),
                              index == nullptr ? nullptr : index->data(), sum, count, nullptr);
  };
  ASSERT_EQ(add(nullptr, 300, &all), 0);
  ASSERT_EQ(add(&some, 4, &of_some), 0);

  EXPECT_EQ(all - 5, rows.Checksum());
  uint64_t expected = 0;
  for (const int64_t row : some) expected += rows.Checksum({40 + row, 41 + row});
  EXPECT_EQ(of_some, expected);
}

TEST(CentreRowsKernel, UnitsAndDescentAreThoseOfTheHostToRounding) {
  constexpr int64_t kWidth = 70;  // more than two numbers per lane
  const std::vector<int64_t> index{4, 0, 9};
  const DescentRates rates{.rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.01F};
  Rows rows = Rows::Initial({0, 10}, kWidth, 2);
  Rows expected = rows.On(HostRows());
  std::vector<float> gradients = Waves(3 * kWidth, 5);
  std::vector<float> units(gradients.size());
  std::vector<float> norms(3);
  ASSERT_EQ(
      LaunchToUnits(
          {.data = rows.values().data(), .index = index.data(), .step = 2 * kWidth, .size = kWidth},
          units.data(), norms.data(), 3, nullptr),
      0);
  std::vector<float> through(gradients.size());
  ASSERT_EQ(LaunchThroughNormalisation(units.data(), norms.data(), gradients.data(), kWidth,
                                       through.data(), 3, nullptr),
            0);
  ASSERT_EQ(LaunchDescent({.index = index.data(),
                           .units = units.data(),
                           .inverse_norms = norms.data(),
                           .unit_gradients = gradients.data(),
                           .dimension = kWidth,
                           .gradient_scale = 0.5F,
                           .rates = rates},
                          rows.values().data(), 3, nullptr),
            0);

  for (std::size_t i = 0; i < index.size(); ++i) {
    std::vector<float> unit(kWidth);
    const float norm = ToUnit(expected.centre(index[i]), kWidth, unit.data());
    EXPECT_NEAR(norms[i] / norm, 1, 1e-6);
    float* const gradient = &gradients[i * kWidth];
    ThroughNormalisation(unit.data(), norm, gradient, kWidth, gradient);
    Descend(gradient, 0.5F, rates, kWidth, expected.centre(index[i]), expected.momentum(index[i]));
    for (std::size_t k = 0; k < kWidth; ++k) {
      EXPECT_NEAR(units[i * kWidth + k], unit[k], 1e-6);
      EXPECT_NEAR(through[i * kWidth + k], gradient[k], 1e-4);
    }
  }
  for (std::size_t i = 0; i < rows.values().size(); ++i) {
    EXPECT_NEAR(rows.values()[i], expected.values()[i], 1e-4) << i;
  }
}

TEST(MarginSoftmaxKernel, LogitsSumsAndCoefficientsAreThoseOfTheDefinition) {
  constexpr int64_t kRowCount = 600;  // three strips
  constexpr int64_t kSamples = 133;   // two blocks
  const FewBlocksDown few(2);         // as in real heads: fewer blocks down the grid than strips
  const Margin margin{.scale = 16};
  std::vector<float> values = Waves(kRowCount * kSamples, 6);
  values[7] = 1.0000002F;  // slightly above 1, as rounding can make it
  const std::vector<float> cosines = values;
  std::vector<int64_t> own(kSamples, -1);
  for (std::size_t i = 0; i < kSamples; i += 3) own[i] = static_cast<int64_t>(i * 17 % kRowCount);
  std::vector<float> slopes(kSamples, 9);
  std::vector<float> target(kSamples, 9);
  std::vector<float> maximum(kSamples, kNoMaximum);
  std::vector<float> sum(kSamples);
  std::vector<float> memory(static_cast<std::size_t>(LogitSumFloats(kRowCount, kSamples)));
  const MarginTile tile{.values = values.data(),
                        .own = own.data(),
                        .slopes = slopes.data(),
                        .rows = kRowCount,
                        .samples = kSamples,
                        .margin = margin};
  ASSERT_EQ(LaunchLogits(tile, target.data(), maximum.data(), sum.data(), memory.data(), nullptr),
            0);
  const std::vector<float> logits = values;
  ASSERT_EQ(LaunchCoefficients(tile, maximum.data(), sum.data(), nullptr), 0);

  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    const auto at = [&](std::size_t row) { return row * kSamples + sample; };
    float highest = kNoMaximum;
    for (std::size_t row = 0; row < kRowCount; ++row) {
      const float cosine = std::min(1.0F, cosines[at(row)]);
      const TargetLogit moved = WithMargin(margin, cosine);
      const bool mine = own[sample] == static_cast<int64_t>(row);
      EXPECT_NEAR(logits[at(row)], mine ? moved.logit : margin.scale * cosine, 1e-4);
      if (mine) {
        EXPECT_EQ(target[sample], logits[at(row)]);
        EXPECT_EQ(slopes[sample], moved.slope);
      }
      highest = std::max(highest, logits[at(row)]);
    }
    if (own[sample] < 0) {
      EXPECT_EQ(target[sample], 9) << "is another rank's";
    }
    EXPECT_EQ(maximum[sample], highest);
    double all = 0;
    for (std::size_t row = 0; row < kRowCount; ++row) {
      all += std::exp(static_cast<double>(logits[at(row)]) - highest);
    }
    EXPECT_NEAR(sum[sample] / all, 1, 1e-5);
    for (std::size_t row = 0; row < kRowCount; ++row) {
      const double p = std::exp(static_cast<double>(logits[at(row)]) - highest) / all;
      const bool mine = own[sample] == static_cast<int64_t>(row);
      EXPECT_NEAR(values[at(row)], mine ? (p - 1) * slopes[sample] : p * margin.scale, 1e-4);
    }
  }
}

TEST(MarginSoftmaxKernel, RescalesSumsToACommonMaximum) {
  std::vector<float> sum{2, 3, 0};
  const std::vector<float> own{1, 4, kNoMaximum};
  const std::vector<float> maximum{3, 4, 2};
  ASSERT_EQ(LaunchRescale(sum.data(), own.data(), maximum.data(), 3, nullptr), 0);
  EXPECT_NEAR(sum[0], 2 * std::exp(-2.0), 1e-6);
  EXPECT_EQ(sum[1], 3);
  EXPECT_EQ(sum[2], 0);
}

}  // namespace
}  // namespace ringmaster::trainer::partial_fc
