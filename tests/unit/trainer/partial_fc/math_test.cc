// Tests the functions of the head's arithmetic separately.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "worker/trainer/partial_fc/class_sampling.h"
#include "worker/trainer/partial_fc/exponential.h"
#include "worker/trainer/partial_fc/margin.h"
#include "worker/trainer/partial_fc/product.h"
#include "worker/trainer/partial_fc/rows.h"
#include "worker/trainer/partial_fc/softmax.h"

namespace ringmaster::trainer::partial_fc {
namespace {

TEST(Exponential, IsExactToTheLastDigitsAndEndsAtZero) {
  for (float x = -86.9F; x < 88.0F; x += 0.0137F) {
    EXPECT_NEAR(Exponential(x) / std::exp(static_cast<double>(x)), 1, 2.5e-7) << x;
  }
  EXPECT_EQ(Exponential(0), 1);
  EXPECT_EQ(Exponential(-200), 0);
  EXPECT_EQ(Exponential(-3e38F), 0);
  EXPECT_TRUE(std::isnan(Exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Margin, NeverRewardsALargerAngleAndHasFiniteSlopes) {
  for (const Margin& margin : {Margin{1, 0.5F, 0, 64}, Margin{1, 0, 0.4F, 64},
                               Margin{1.35F, 0.2F, 0.1F, 64}, Margin{4, 0, 0, 64}}) {
    float before = std::numeric_limits<float>::infinity();
    for (int i = 0; i <= 3000; ++i) {
      const float cosine = static_cast<float>(std::cos(i * 3.14159265 / 3000));
      const TargetLogit logit = WithMargin(margin, cosine);
      EXPECT_LE(logit.logit, before + 1e-2F) << cosine;
      EXPECT_TRUE(std::isfinite(logit.slope)) << cosine;
      before = logit.logit;
    }
  }
}

TEST(Margin, SlopeIsThatOfTheLogit) {
  for (const Margin& margin :
       {Margin{1, 0.5F, 0, 64}, Margin{1, 0, 0.4F, 64}, Margin{1.35F, 0.2F, 0.1F, 64}}) {
    for (const float cosine : {-0.95F, -0.6F, 0.0F, 0.3F, 0.9F}) {
      constexpr float kStep = 1e-3F;
      const float rise =
          WithMargin(margin, cosine + kStep).logit - WithMargin(margin, cosine - kStep).logit;
      EXPECT_NEAR(WithMargin(margin, cosine).slope / (rise / (2 * kStep)), 1, 2e-3) << cosine;
    }
  }
}

TEST(Product, AnElementDoesNotDependOnTheShape) {
  constexpr int64_t kRows = 29;
  constexpr int64_t kInner = 37;
  constexpr int64_t kColumns = 41;
  std::vector<float> left(kRows * kInner);
  std::vector<float> right(kInner * kColumns);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = std::sin(static_cast<float>(i));
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = std::cos(static_cast<float>(3 * i));
  std::vector<float> all(kRows * kColumns, 1);
  const auto multiply = [&](int64_t first, int64_t rows, int64_t column, int64_t columns,
                            float* out) {
    Multiply({.rows = rows,
              .columns = columns,
              .inner = kInner,
              .left = {.data = left.data() + first * kInner, .row_step = kInner},
              .right = right.data() + column,
              .right_step = kColumns,
              .out = out,
              .out_step = columns,
              .add = true});
  };
  multiply(0, kRows, 0, kColumns, all.data());

  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column < kColumns; column += 5) {
      const int64_t columns = std::min<int64_t>(5, kColumns - column);
      std::vector<float> part(static_cast<std::size_t>(columns), 1);
      multiply(row, 1, column, columns, part.data());
      for (int64_t c = 0; c < columns; ++c) {
        double exact = 1;
        for (int64_t k = 0; k < kInner; ++k) {
          exact += static_cast<double>(left[static_cast<std::size_t>(row * kInner + k)]) *
                   right[static_cast<std::size_t>(k * kColumns + column + c)];
        }
        const float value = all[static_cast<std::size_t>(row * kColumns + column + c)];
        EXPECT_EQ(part[static_cast<std::size_t>(c)], value) << row << ' ' << column;
        EXPECT_NEAR(value, exact, 1e-5);
      }
    }
  }
}

TEST(Softmax, PartsOfTheClassesGiveTheSumsOfTheWhole) {
  constexpr std::size_t kSamples = 5;
  constexpr std::size_t kClasses = 83;
  std::vector<float> logits(kClasses * kSamples);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = 64 * std::sin(static_cast<float>(i * i));
  }
  const auto sums_of = [&](std::size_t begin, std::size_t end, std::vector<float>& maximum) {
    maximum.assign(kSamples, kNoMaximum);
    std::vector<float> sum(kSamples);
    AddTile(std::span(logits).subspan(begin * kSamples, (end - begin) * kSamples),
            {.maximum = maximum, .sum = sum});
    return sum;
  };
  std::vector<float> maximum, first_maximum, second_maximum, none;
  const std::vector<float> sum = sums_of(0, kClasses, maximum);
  std::vector<float> first = sums_of(0, 30, first_maximum);
  std::vector<float> second = sums_of(30, kClasses, second_maximum);
  std::vector<float> empty = sums_of(0, 0, none);

  Rescale(first, first_maximum, maximum);
  Rescale(second, second_maximum, maximum);
  Rescale(empty, none, maximum);
  ToProbabilities(logits, maximum, sum, 2);

  for (std::size_t i = 0; i < kSamples; ++i) {
    EXPECT_NEAR((first[i] + second[i]) / sum[i], 1, 1e-6);
    EXPECT_EQ(empty[i], 0);
    double total = 0;
    for (std::size_t at = i; at < logits.size(); at += kSamples) total += logits[at];
    EXPECT_NEAR(total, 2, 1e-5);
  }
}

// The error of a sequential sum of floats is 2e-3, so losses would depend on the number of ranks.
TEST(Softmax, TheSumOverAMillionClassesIsThatOfTheExactOnes) {
  constexpr std::size_t kSamples = 3;
  constexpr std::size_t kClasses = 1'000'000;
  std::vector<float> logits(kClasses * kSamples);
  std::vector<double> exact(kSamples);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double part = static_cast<double>(i) * 0.6180339887498949;
    logits[i] = static_cast<float>(8 * (part - std::floor(part)));
    exact[i % kSamples] += std::exp(static_cast<double>(logits[i]) - 8);
  }
  std::vector<float> maximum(kSamples, kNoMaximum);
  std::vector<float> sum(kSamples);

  AddTile(logits, {.maximum = maximum, .sum = sum});

  for (std::size_t i = 0; i < kSamples; ++i) {
    EXPECT_NEAR(sum[i] * std::exp(static_cast<double>(maximum[i]) - 8) / exact[i], 1, 2e-6);
  }
}

TEST(Softmax, TwentyMillionEqualLogitsAreAllCounted) {
  const std::vector<float> logits(100'000, 3);
  std::vector<float> maximum{kNoMaximum};
  std::vector<float> sum{0};

  for (int part = 0; part < 200; ++part) AddTile(logits, {.maximum = maximum, .sum = sum});

  EXPECT_EQ(sum[0], 2e7F);  // a sequential sum of ones in floats would stop at 2^24
}

TEST(ClassSampling, DependsOnNeitherShardsNorOtherClasses) {
  const std::vector<int64_t> labels{7, 999, 7, 500};
  const SamplingOptions options{.seed = 3, .rate = 0.1};
  const std::vector<int64_t> whole = SampledClasses(options, 12, labels, {0, 1000});

  std::vector<int64_t> parts;
  for (const ClassRange range : {ClassRange{0, 333}, ClassRange{333, 334}, ClassRange{334, 1000}}) {
    for (const int64_t label : SampledClasses(options, 12, labels, range)) parts.push_back(label);
  }

  EXPECT_EQ(parts, whole);
  EXPECT_TRUE(std::ranges::is_sorted(whole));
  for (const int64_t label : labels) EXPECT_TRUE(std::ranges::binary_search(whole, label));
  EXPECT_NEAR(static_cast<double>(whole.size()), 103, 35);
  EXPECT_NE(SampledClasses(options, 13, labels, {0, 1000}), whole);
  EXPECT_EQ(SampledClasses({.seed = 3, .rate = 1}, 12, labels, {5, 8}),
            (std::vector<int64_t>{5, 6, 7}));
}

TEST(Rows, BeginNormalAndTheSameInEveryShard) {
  constexpr int64_t kWidth = 33;
  const Rows all = Rows::Initial({0, 300}, kWidth, 4);
  const Rows part = Rows::Initial({100, 150}, kWidth, 4);

  double sum = 0;
  double squares = 0;
  for (int64_t row = 0; row < 300; ++row) {
    for (int64_t i = 0; i < kWidth; ++i) {
      const double value = all.centre(row)[i];
      sum += value;
      squares += value * value;
      EXPECT_EQ(all.momentum(row)[i], 0);
    }
  }
  EXPECT_NEAR(sum / (300 * kWidth), 0, 5e-4);
  EXPECT_NEAR(std::sqrt(squares / (300 * kWidth)), 0.01, 3e-4);
  EXPECT_TRUE(std::ranges::equal(part.values(), all.Of({100, 150})));
  EXPECT_EQ(RowsChecksum(0, 2 * kWidth, all.values()),
            RowsChecksum(0, 2 * kWidth, all.Of({0, 100})) +
                RowsChecksum(100, 2 * kWidth, part.values()) +
                RowsChecksum(150, 2 * kWidth, all.Of({150, 300})));
}

}  // namespace
}  // namespace ringmaster::trainer::partial_fc
