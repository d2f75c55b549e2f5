// Digits drawn as strokes: each digit is a few polylines in the unit square, drawn with a random
// affine distortion, pen width and noise. All random numbers depend only on (seed, half, index), so
// an image is the same on every rank and machine.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include "common/base/mutex.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/numeric/fingerprint.h"
#include "worker/trainer/numeric/philox.h"

namespace ringmaster::trainer {
namespace {

struct Point {
  float x;
  float y;
};

using Stroke = std::vector<Point>;

// The strokes of each digit. x points to the right and y downwards, both in [0, 1].
const std::array<std::vector<Stroke>, kClasses>& Glyphs() {
  static const std::array<std::vector<Stroke>, kClasses> glyphs = {{
      {{{.5F, .0F},
        {.2F, .15F},
        {.1F, .5F},
        {.2F, .85F},
        {.5F, 1.F},
        {.8F, .85F},
        {.9F, .5F},
        {.8F, .15F},
        {.5F, .0F}}},
      {{{.3F, .2F}, {.55F, .0F}, {.55F, 1.F}}},
      {{{.1F, .25F}, {.25F, .05F}, {.55F, .0F}, {.85F, .15F}, {.85F, .4F}, {.1F, 1.F}, {.9F, 1.F}}},
      {{{.1F, .1F}, {.5F, .0F}, {.85F, .15F}, {.8F, .4F}, {.4F, .48F}},
       {{.4F, .48F}, {.85F, .6F}, {.85F, .85F}, {.5F, 1.F}, {.1F, .9F}}},
      {{{.65F, 1.F}, {.65F, .0F}, {.1F, .65F}, {.95F, .65F}}},
      {{{.85F, .0F},
        {.2F, .0F},
        {.15F, .45F},
        {.55F, .38F},
        {.88F, .6F},
        {.8F, .88F},
        {.45F, 1.F},
        {.1F, .9F}}},
      {{{.75F, .0F},
        {.35F, .25F},
        {.12F, .65F},
        {.3F, .97F},
        {.7F, .97F},
        {.88F, .7F},
        {.65F, .48F},
        {.2F, .58F}}},
      {{{.1F, .0F}, {.9F, .0F}, {.4F, 1.F}}, {{.3F, .52F}, {.8F, .52F}}},
      {{{.5F, .47F}, {.2F, .3F}, {.25F, .06F}, {.5F, .0F}, {.75F, .06F}, {.8F, .3F}, {.5F, .47F}},
       {{.5F, .47F},
        {.12F, .7F},
        {.22F, .95F},
        {.5F, 1.F},
        {.78F, .95F},
        {.88F, .7F},
        {.5F, .47F}}},
      {{{.85F, .4F},
        {.5F, .52F},
        {.15F, .35F},
        {.25F, .06F},
        {.6F, .0F},
        {.85F, .2F},
        {.82F, .6F},
        {.6F, 1.F}}},
  }};
  return glyphs;
}

// The random numbers of an image, in the order of their use.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t half, int64_t index)
      : seed_(seed), half_(half), index_(static_cast<uint32_t>(index)) {}

  float Unit() {
    if (used_ == 4) {
      block_ = RandomBlock(seed_, RandomPurpose::kDigits, half_, index_, lane_++);
      used_ = 0;
    }
    return UnitFloat(block_.words[used_++]);
  }
  float Between(float low, float high) { return low + (high - low) * Unit(); }

 private:
  uint64_t seed_;
  uint64_t half_;
  uint32_t index_;
  uint32_t lane_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

// The rotation, shear, size and position of a digit, which map the unit square to pixels.
struct Pose {
  float a, b, c, d, x, y;

  Point operator()(Point p) const {
    const float u = p.x - 0.5F;
    const float v = p.y - 0.5F;
    return {a * u + b * v + x, c * u + d * v + y};
  }
};

Pose RandomPose(Draws& draws) {
  const float angle = draws.Between(-0.25F, 0.25F);
  const float shear = draws.Between(-0.25F, 0.25F);
  const float width = draws.Between(10.F, 16.F);
  const float height = draws.Between(16.F, 21.F);
  const float middle = static_cast<float>(kImageSide) / 2;
  return {.a = width * std::cos(angle),
          .b = height * (shear - std::sin(angle)),
          .c = width * std::sin(angle),
          .d = height * std::cos(angle),
          .x = middle + draws.Between(-2.5F, 2.5F),
          .y = middle + draws.Between(-2.5F, 2.5F)};
}

float DistanceSquared(Point p, Point a, Point b) {
  const float dx = b.x - a.x;
  const float dy = b.y - a.y;
  const float length = std::max(dx * dx + dy * dy, 1e-6F);
  const float t = std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length, 0.F, 1.F);
  const float ex = p.x - (a.x + t * dx);
  const float ey = p.y - (a.y + t * dy);
  return ex * ex + ey * ey;
}

// Draws a segment: pixels within the pen's radius become black, and the ink fades over one pixel.
void DrawSegment(Point a, Point b, float radius, std::array<float, kImagePixels>& ink) {
  const float reach = radius + 1;
  const auto low = [&](float u, float v) {
    return std::max(0, static_cast<int>(std::min(u, v) - reach));
  };
  const auto high = [&](float u, float v) {
    return std::min(kImageSide - 1, static_cast<int>(std::ceil(std::max(u, v) + reach)));
  };
  for (int y = low(a.y, b.y); y <= high(a.y, b.y); ++y) {
    for (int x = low(a.x, b.x); x <= high(a.x, b.x); ++x) {
      const Point centre{static_cast<float>(x) + 0.5F, static_cast<float>(y) + 0.5F};
      const float distance = std::sqrt(DistanceSquared(centre, a, b));
      float& pixel = ink[static_cast<std::size_t>(y * kImageSide + x)];
      pixel = std::max(pixel, std::clamp(radius + 1 - distance, 0.F, 1.F));
    }
  }
}

class GeneratedImageSet final : public ImageSet {
 public:
  GeneratedImageSet(uint64_t seed, uint64_t half, int64_t size)
      : seed_(seed), half_(half), drawn_(static_cast<std::size_t>(size)) {
    pixels_.resize(static_cast<std::size_t>(size) * kImagePixels);
  }

  int64_t size() const override { return static_cast<int64_t>(drawn_.size()); }
  uint8_t Label(int64_t index) const override {
    return static_cast<uint8_t>(Draws(seed_, half_ + 2, index).Between(0, kClasses));
  }

  uint64_t fingerprint() const override {
    Fingerprint fingerprint;
    fingerprint.Add("generated digits");
    for (const uint64_t number : {seed_, half_, uint64_t{drawn_.size()}}) fingerprint.Add(number);
    return fingerprint.value();
  }

  const uint8_t* Image(int64_t index) override {
    uint8_t* image = pixels_.data() + index * kImagePixels;
    std::atomic<bool>& drawn = drawn_[static_cast<std::size_t>(index)];
    if (drawn.load(std::memory_order_acquire)) return image;
    const MutexLock lock(drawing_);
    if (!drawn.load(std::memory_order_relaxed)) {
      Draw(index, image);
      drawn.store(true, std::memory_order_release);
    }
    return image;
  }

 private:
  void Draw(int64_t index, uint8_t* image) const {
    Draws draws(seed_, half_, index);
    const Pose pose = RandomPose(draws);
    const float radius = draws.Between(0.4F, 1.4F);
    std::array<float, kImagePixels> ink{};
    for (const Stroke& stroke : Glyphs()[Label(index)]) {
      Point previous{};
      for (std::size_t i = 0; i < stroke.size(); ++i) {
        Point point = pose(stroke[i]);
        point.x += draws.Between(-0.7F, 0.7F);
        point.y += draws.Between(-0.7F, 0.7F);
        if (i > 0) DrawSegment(previous, point, radius, ink);
        previous = point;
      }
    }
    for (int i = 0; i < kImagePixels; ++i) {
      const float noise = draws.Between(-0.08F, 0.08F);
      image[i] = static_cast<uint8_t>(
          255 * std::clamp(ink[static_cast<std::size_t>(i)] + noise, 0.F, 1.F));
    }
  }

  const uint64_t seed_;
  const uint64_t half_;  // 0: training, 1: held out
  Mutex drawing_;        // locked to draw an image; images marked in drawn_ are read unlocked
  std::vector<std::atomic<bool>> drawn_;
  std::vector<uint8_t> pixels_;
};

}  // namespace

Dataset GeneratedDigits(uint64_t seed, int64_t training, int64_t held_out) {
  return {.training = std::make_unique<GeneratedImageSet>(seed, 0, training),
          .held_out = std::make_unique<GeneratedImageSet>(seed, 1, held_out)};
}

}  // namespace ringmaster::trainer
