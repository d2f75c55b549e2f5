#pragma once

// Images of many classes for training a margin softmax, such as faces of identities. They come from
// the sets of dataset.h or are generated. Not thread-safe.

#include <cstdint>
#include <memory>

#include "worker/trainer/data/dataset.h"

namespace ringmaster::trainer {

struct ImageShape {
  int64_t channels = 3;
  int64_t side = 112;  // pixels

  int64_t values() const { return channels * side * side; }
};

class LabelledImages {
 public:
  virtual ~LabelledImages() = default;
  virtual ImageShape shape() const = 0;
  virtual int64_t size() const = 0;
  // Returns a class from 0 to classes - 1. REQUIRES, also for Fill(): index in [0, size()).
  virtual int64_t Label(int64_t index) const = 0;
  // Writes shape().values() numbers in [-1, 1]: channel by channel, row by row. Several threads may
  // call it at once.
  virtual void Fill(int64_t index, float* values) const = 0;
  // See ImageSet::fingerprint().
  virtual uint64_t fingerprint() const = 0;
};

struct LabelledData {
  std::unique_ptr<LabelledImages> training;
  std::unique_ptr<LabelledImages> held_out;
  int64_t classes = 0;
};

// The 28×28 greyscale images of `dataset`, with its ten classes.
LabelledData LabelledDigits(Dataset dataset);

struct IdentityOptions {
  uint64_t seed = 1;
  int64_t classes = 0;
  int64_t training = 0;  // number of images
  int64_t held_out = 0;
  ImageShape shape;
};

// Generates faces: an identity is a coarse pattern, and an image is this pattern with noise. The
// pattern depends only on (seed, identity), the noise on (seed, half, image). If there are more
// classes than half the images, only evenly spaced classes are used: each of them has two images.
LabelledData SyntheticIdentities(const IdentityOptions& options);

}  // namespace ringmaster::trainer
