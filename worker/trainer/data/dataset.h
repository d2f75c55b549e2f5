#pragma once

// Labelled 28×28 greyscale images for the mnist workload, read from IDX files or generated.
// Thread-safe, although a generated set draws each image only at its first use.

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace ringmaster::trainer {

inline constexpr int kImageSide = 28;
inline constexpr int kImagePixels = kImageSide * kImageSide;
inline constexpr int kClasses = 10;

class ImageSet {
 public:
  virtual ~ImageSet() = default;
  virtual int64_t size() const = 0;
  // Returns kImagePixels bytes, row by row, valid as long as *this. REQUIRES: 0 <= index < size().
  virtual const uint8_t* Image(int64_t index) = 0;
  virtual uint8_t Label(int64_t index) const = 0;
  // A hash of all pixels and labels, or of the generator's input. Equal sets have equal hashes.
  virtual uint64_t fingerprint() const = 0;
};

struct Dataset {
  std::unique_ptr<ImageSet> training;
  std::unique_ptr<ImageSet> held_out;
};

// Loads the MNIST files of `folder` (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-…).
// They may be gzipped. Images of another size are scaled to 28×28. kInvalid: a file is missing or
// invalid; the message names the file, the position in it, and what was expected.
Result<Dataset> LoadIdxFolder(const std::string& folder);

// Generates digits. An image depends only on `seed`, its index and whether it is for training.
Dataset GeneratedDigits(uint64_t seed, int64_t training, int64_t held_out);

// Scales an image bilinearly, with aligned pixel centres. `scaled` must have kImagePixels bytes.
void ScaleToImage(const uint8_t* pixels, int64_t rows, int64_t columns, uint8_t* scaled);

}  // namespace ringmaster::trainer
