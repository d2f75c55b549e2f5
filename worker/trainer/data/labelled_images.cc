#include "worker/trainer/data/labelled_images.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/trainer/numeric/fingerprint.h"
#include "worker/trainer/numeric/philox.h"

namespace ringmaster::trainer {
namespace {

class Digits final : public LabelledImages {
 public:
  explicit Digits(std::unique_ptr<ImageSet> images) : images_(std::move(images)) {}

  ImageShape shape() const override { return {.channels = 1, .side = kImageSide}; }
  int64_t size() const override { return images_->size(); }
  int64_t Label(int64_t index) const override { return images_->Label(index); }
  void Fill(int64_t index, float* values) const override {
    const uint8_t* pixels = images_->Image(index);
    for (int i = 0; i < kImagePixels; ++i) values[i] = static_cast<float>(pixels[i]) / 127.5F - 1;
  }
  uint64_t fingerprint() const override { return images_->fingerprint(); }

 private:
  const std::unique_ptr<ImageSet> images_;
};

constexpr std::size_t kPatternSide = 7;
constexpr float kPatternWeight = 0.7F;
constexpr uint64_t kImages = uint64_t{1} << 62;  // marks random numbers of images, not identities

class Identities final : public LabelledImages {
 public:
  // `half`: 0 for training, 1 for held-out images.
  Identities(const IdentityOptions& options, uint64_t half, int64_t size)
      : options_(options),
        half_(half),
        size_(size),
        used_(std::clamp<int64_t>(size / 2, 1, options.classes)) {}

  ImageShape shape() const override { return options_.shape; }
  int64_t size() const override { return size_; }
  int64_t Label(int64_t index) const override { return (index % used_) * options_.classes / used_; }
  void Fill(int64_t index, float* values) const override {
    const std::vector<float> pattern = PatternOf(Label(index));
    const auto side = static_cast<std::size_t>(options_.shape.side);
    std::vector<std::size_t> cell_of(side);  // pattern cell of each row and each column
    for (std::size_t i = 0; i < side; ++i) cell_of[i] = i * kPatternSide / side;
    const uint64_t image = kImages | (half_ << 61) | static_cast<uint64_t>(index);
    PhiloxBlock noise{};
    int64_t i = 0;
    for (std::size_t row = 0; row < static_cast<std::size_t>(options_.shape.channels) * side;
         ++row) {
      const float* const cells =
          pattern.data() + (row / side * kPatternSide + cell_of[row % side]) * kPatternSide;
      for (std::size_t x = 0; x < side; ++x, ++i) {
        if (i % 4 == 0) noise = Draw(image, i / 4);
        values[i] = kPatternWeight * cells[cell_of[x]] +
                    (1 - kPatternWeight) * (2 * UnitFloat(noise.words[i % 4]) - 1);
      }
    }
  }
  uint64_t fingerprint() const override {
    Fingerprint fingerprint;
    fingerprint.Add("synthetic identities");
    fingerprint.Add(options_.seed);
    for (const int64_t number :
         {options_.classes, size_, options_.shape.channels, options_.shape.side}) {
      fingerprint.Add(static_cast<uint64_t>(number));
    }
    return fingerprint.value();
  }

 private:
  std::vector<float> PatternOf(int64_t label) const {
    std::vector<float> pattern(static_cast<std::size_t>(options_.shape.channels) * kPatternSide *
                               kPatternSide);
    for (std::size_t cell = 0; cell < pattern.size(); ++cell) {
      const PhiloxBlock drawn = Draw(static_cast<uint64_t>(label), static_cast<int64_t>(cell));
      pattern[cell] = 2 * UnitFloat(drawn.words[0]) - 1;
    }
    return pattern;
  }
  PhiloxBlock Draw(uint64_t of, int64_t place) const {
    return RandomBlock(options_.seed, RandomPurpose::kIdentities, of, static_cast<uint32_t>(place),
                       0);
  }

  const IdentityOptions options_;
  const uint64_t half_;
  const int64_t size_;
  const int64_t used_;  // number of classes that have images
};

}  // namespace

LabelledData LabelledDigits(Dataset dataset) {
  return {.training = std::make_unique<Digits>(std::move(dataset.training)),
          .held_out = std::make_unique<Digits>(std::move(dataset.held_out)),
          .classes = kClasses};
}

LabelledData SyntheticIdentities(const IdentityOptions& options) {
  return {.training = std::make_unique<Identities>(options, 0, options.training),
          .held_out = std::make_unique<Identities>(options, 1, options.held_out),
          .classes = options.classes};
}

}  // namespace ringmaster::trainer
