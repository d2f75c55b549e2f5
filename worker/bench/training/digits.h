#pragma once

// Labelled images that all training runs of a process share. All images are drawn or unpacked in
// advance, so that the duration of a run does not depend on earlier runs.

#include <cstdint>
#include <memory>
#include <string>

#include "worker/trainer/data/dataset.h"

namespace ringmaster::bench {

class Digits {
 public:
  // `data`: a folder of IDX files, or "generated" for `samples` images, a quarter of them held out.
  static Result<Digits> Load(const std::string& data, int64_t samples);

  // Refers to this object's memory and must not outlive it.
  trainer::Dataset dataset() const;
  int64_t training_size() const;

 private:
  struct Images;
  class View;
  std::shared_ptr<const Images> training_;
  std::shared_ptr<const Images> held_out_;
};

}  // namespace ringmaster::bench
