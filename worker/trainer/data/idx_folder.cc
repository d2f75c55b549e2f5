#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <vector>

#include "worker/trainer/data/dataset.h"
#include "worker/trainer/data/file_bytes.h"
#include "worker/trainer/data/idx.h"
#include "worker/trainer/numeric/fingerprint.h"

namespace ringmaster::trainer {
namespace {

class MemoryImageSet final : public ImageSet {
 public:
  MemoryImageSet(std::vector<uint8_t> pixels, std::vector<uint8_t> labels)
      : pixels_(std::move(pixels)), labels_(std::move(labels)) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const uint8_t* Image(int64_t index) override { return pixels_.data() + index * kImagePixels; }
  uint8_t Label(int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }
  uint64_t fingerprint() const override {
    Fingerprint fingerprint;
    fingerprint.Add(pixels_);
    fingerprint.Add(labels_);
    return fingerprint.value();
  }

 private:
  const std::vector<uint8_t> pixels_;
  const std::vector<uint8_t> labels_;
};

struct NamedBytes {
  std::string path;
  std::string bytes;
};

// Reads `file` in `folder`, or the same file with .gz, and returns its path and contents.
Result<NamedBytes> ReadOne(const std::string& folder, const std::string& file) {
  const std::string plain = folder + "/" + file;
  for (const std::string& path : {plain, plain + ".gz"}) {
    Result<std::string> bytes = ReadMaybeGzip(path);
    if (bytes.ok()) return NamedBytes{path, *std::move(bytes)};
    if (bytes.error().kind != ErrorKind::kNotFound) return bytes.error();
  }
  return Error{ErrorKind::kInvalid, folder + ": expected the file " + file + " or " + file +
                                        ".gz, found neither; --data must be a folder with the four "
                                        "MNIST files in IDX format, or 'generated'"};
}

std::vector<uint8_t> Scaled(IdxImages images) {
  if (images.rows == kImageSide && images.columns == kImageSide) return std::move(images.pixels);
  std::vector<uint8_t> scaled(static_cast<std::size_t>(images.count) * kImagePixels);
  for (int64_t i = 0; i < images.count; ++i) {
    ScaleToImage(images.pixels.data() + i * images.rows * images.columns, images.rows,
                 images.columns, scaled.data() + i * kImagePixels);
  }
  return scaled;
}

Result<std::unique_ptr<ImageSet>> LoadHalf(const std::string& folder, const std::string& prefix) {
  const Result<NamedBytes> image_file = ReadOne(folder, prefix + "-images-idx3-ubyte");
  if (!image_file.ok()) return image_file.error();
  Result<IdxImages> images = ParseIdxImages(image_file->bytes, image_file->path);
  if (!images.ok()) return images.error();
  const Result<NamedBytes> label_file = ReadOne(folder, prefix + "-labels-idx1-ubyte");
  if (!label_file.ok()) return label_file.error();
  Result<std::vector<uint8_t>> labels =
      ParseIdxLabels(label_file->bytes, label_file->path, kClasses);
  if (!labels.ok()) return labels.error();
  if (static_cast<int64_t>(labels->size()) != images->count) {
    return Error{ErrorKind::kInvalid, label_file->path + ", offset 4: expected " +
                                          std::to_string(images->count) +
                                          " labels, one for each image of " + image_file->path +
                                          ", found " + std::to_string(labels->size())};
  }
  return std::unique_ptr<ImageSet>(
      std::make_unique<MemoryImageSet>(Scaled(*std::move(images)), *std::move(labels)));
}

// The two pixels of an input row or column between which an output pixel lies, and the weight of
// the second one.
struct Tap {
  int64_t first;
  int64_t second;
  float weight;
};

Tap TapFor(int at, int64_t size) {
  const float centre =
      (static_cast<float>(at) + 0.5F) * static_cast<float>(size) / static_cast<float>(kImageSide) -
      0.5F;
  const float clamped = std::clamp(centre, 0.0F, static_cast<float>(size - 1));
  const auto first = static_cast<int64_t>(clamped);
  return {first, std::min(first + 1, size - 1), clamped - static_cast<float>(first)};
}

}  // namespace

void ScaleToImage(const uint8_t* pixels, int64_t rows, int64_t columns, uint8_t* scaled) {
  for (int y = 0; y < kImageSide; ++y) {
    const Tap row = TapFor(y, rows);
    for (int x = 0; x < kImageSide; ++x) {
      const Tap column = TapFor(x, columns);
      const auto pixel = [&](int64_t r, int64_t c) {
        return static_cast<float>(pixels[r * columns + c]);
      };
      const float top =
          std::lerp(pixel(row.first, column.first), pixel(row.first, column.second), column.weight);
      const float bottom = std::lerp(pixel(row.second, column.first),
                                     pixel(row.second, column.second), column.weight);
      *scaled++ = static_cast<uint8_t>(std::lround(std::lerp(top, bottom, row.weight)));
    }
  }
}

Result<Dataset> LoadIdxFolder(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Error{ErrorKind::kInvalid,
                 folder + ": expected a folder with the four MNIST files in IDX format, found " +
                     (std::filesystem::exists(folder, error) ? "something else" : "nothing")};
  }
  Result<std::unique_ptr<ImageSet>> training = LoadHalf(folder, "train");
  if (!training.ok()) return training.error();
  Result<std::unique_ptr<ImageSet>> held_out = LoadHalf(folder, "t10k");
  if (!held_out.ok()) return held_out.error();
  return Dataset{.training = *std::move(training), .held_out = *std::move(held_out)};
}

}  // namespace ringmaster::trainer
