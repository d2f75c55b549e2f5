// Writes the data that ringmaster-train trains on to files that PyTorch can read. Usage:
// figure-training-data FOLDER FLAGS..., with the flags of ringmaster-train. FOLDER/training.images
// contains the images one after the other, as bytes (grey values) for --workload=mnist and as
// floats for partial-fc. FOLDER/training.labels contains a 64-bit number for each image.
// FOLDER/held-out.* contains the held-out images and labels.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "worker/trainer/train/make_workload.h"

namespace ringmaster::accuracy_bench {
namespace {

using namespace trainer;

template <typename Value>
struct Half {
  int64_t images = 0;
  int64_t values = 0;  // number of values per image
  std::function<void(int64_t index, Value* image)> fill;
  std::function<int64_t(int64_t index)> label;
};

template <typename Value>
bool Write(const Half<Value>& half, const std::string& path) {
  std::ofstream images(path + ".images", std::ios::binary);
  std::ofstream labels(path + ".labels", std::ios::binary);
  std::vector<Value> image(static_cast<std::size_t>(half.values));
  for (int64_t i = 0; i < half.images; ++i) {
    half.fill(i, image.data());
    const int64_t label = half.label(i);
    images.write(reinterpret_cast<const char*>(image.data()),
                 static_cast<std::streamsize>(image.size() * sizeof(Value)));
    labels.write(reinterpret_cast<const char*>(&label), sizeof(label));
  }
  return images.flush().good() && labels.flush().good();
}

Half<uint8_t> HalfOf(ImageSet& set) {
  return {
      .images = set.size(),
      .values = kImagePixels,
      .fill = [&set](int64_t i, uint8_t* image) { std::copy_n(set.Image(i), kImagePixels, image); },
      .label = [&set](int64_t i) { return set.Label(i); }};
}

Half<float> HalfOf(LabelledImages& set) {
  return {.images = set.size(),
          .values = set.shape().values(),
          .fill = [&set](int64_t i, float* image) { set.Fill(i, image); },
          .label = [&set](int64_t i) { return set.Label(i); }};
}

template <typename Data>
int WriteBoth(const Result<Data>& data, const std::string& folder) {
  if (!data.ok()) {
    std::fprintf(stderr, "figure-training-data: %s\n", data.error().message.c_str());
    return 2;
  }
  const bool written = Write(HalfOf(*data->training), folder + "/training") &&
                       Write(HalfOf(*data->held_out), folder + "/held-out");
  if (!written) std::fprintf(stderr, "figure-training-data: cannot write to %s\n", folder.c_str());
  return written ? 0 : 1;
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: figure-training-data FOLDER FLAGS...; FLAGS: those of ringmaster-train\n");
    return 2;
  }
  const Result<ParsedCommandLine> parsed = ParseCommandLine(argc - 1, argv + 1);
  if (!parsed.ok()) {
    std::fprintf(stderr, "figure-training-data: %s\n", parsed.error().message.c_str());
    return 2;
  }
  const TrainOptions& options = parsed->options;
  return options.workload == kPartialFcWorkload ? WriteBoth(LoadLabelled(options), argv[1])
                                                : WriteBoth(LoadDigits(options), argv[1]);
}

}  // namespace
}  // namespace ringmaster::accuracy_bench

int main(int argc, char** argv) { return ringmaster::accuracy_bench::Main(argc, argv); }
