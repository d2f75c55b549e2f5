#include "worker/bench/training/digits.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ringmaster::bench {

struct Digits::Images {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
  uint64_t fingerprint;

  explicit Images(trainer::ImageSet& set) : fingerprint(set.fingerprint()) {
    const auto count = static_cast<std::size_t>(set.size());
    pixels.reserve(count * trainer::kImagePixels);
    labels.reserve(count);
    for (int64_t i = 0; i < set.size(); ++i) {
      const uint8_t* image = set.Image(i);
      pixels.insert(pixels.end(), image, image + trainer::kImagePixels);
      labels.push_back(set.Label(i));
    }
  }
};

class Digits::View final : public trainer::ImageSet {
 public:
  explicit View(std::shared_ptr<const Images> images) : images_(std::move(images)) {}

  int64_t size() const override { return static_cast<int64_t>(images_->labels.size()); }
  const uint8_t* Image(int64_t index) override {
    return images_->pixels.data() + index * trainer::kImagePixels;
  }
  uint8_t Label(int64_t index) const override {
    return images_->labels[static_cast<std::size_t>(index)];
  }
  uint64_t fingerprint() const override { return images_->fingerprint; }

 private:
  const std::shared_ptr<const Images> images_;
};

Result<Digits> Digits::Load(const std::string& data, int64_t samples) {
  constexpr uint64_t kSeed = 1;
  Result<trainer::Dataset> dataset = data == "generated"
                                         ? Result<trainer::Dataset>(trainer::GeneratedDigits(
                                               kSeed, samples, std::max<int64_t>(1, samples / 4)))
                                         : trainer::LoadIdxFolder(data);
  if (!dataset.ok()) return dataset.error().WithContext("reading the training data");
  Digits digits;
  digits.training_ = std::make_shared<const Images>(*dataset->training);
  digits.held_out_ = std::make_shared<const Images>(*dataset->held_out);
  return digits;
}

trainer::Dataset Digits::dataset() const {
  return {.training = std::make_unique<View>(training_),
          .held_out = std::make_unique<View>(held_out_)};
}

int64_t Digits::training_size() const { return static_cast<int64_t>(training_->labels.size()); }

}  // namespace ringmaster::bench
