#include "worker/trainer/data/idx.h"

#include <array>

#include "common/base/hex.h"

namespace ringmaster::trainer {
namespace {

constexpr uint32_t kImagesMagic = 0x00000803;
constexpr uint32_t kLabelsMagic = 0x00000801;
constexpr uint32_t kMaxSide = 4096;

std::string Hex(uint32_t value) { return "0x" + HexOf(uint64_t{value}).substr(8); }

Error At(const std::string& name, std::size_t offset, const std::string& what) {
  return {ErrorKind::kInvalid, name + ", offset " + std::to_string(offset) + ": " + what};
}

// Reads the big-endian words of a header and remembers the position for error messages.
class Header {
 public:
  Header(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  std::size_t offset() const { return offset_; }

  Result<uint32_t> Word(const std::string& expected) {
    if (bytes_.size() - offset_ < 4) {
      return At(name_, offset_,
                "expected " + expected + " (4 bytes), but the file ends after " +
                    std::to_string(bytes_.size()) + " bytes");
    }
    uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value = (value << 8) | static_cast<uint8_t>(bytes_[offset_ + i]);
    offset_ += 4;
    return value;
  }

  Result<void> Magic(uint32_t expected, const char* kind) {
    const Result<uint32_t> magic = Word(std::string("the magic number of IDX ") + kind);
    if (!magic.ok()) return magic.error();
    if (*magic != expected) {
      return At(name_, 0,
                "expected the magic number " + Hex(expected) + " of IDX " + kind + ", found " +
                    Hex(*magic));
    }
    return {};
  }

  // Returns the bytes after the header. Fails unless there are exactly `expected` bytes.
  Result<std::string_view> Body(uint64_t expected, const std::string& what) {
    const uint64_t present = bytes_.size() - offset_;
    if (present < expected) {
      return At(name_, bytes_.size(),
                "expected " + std::to_string(expected) + " bytes of " + what + " after offset " +
                    std::to_string(offset_) + ", but the file ends after " +
                    std::to_string(present) + " of them (truncated)");
    }
    if (present > expected) {
      return At(name_, offset_ + static_cast<std::size_t>(expected),
                "expected the end of the file after " + what + ", found " +
                    std::to_string(present - expected) + " more bytes");
    }
    return bytes_.substr(offset_);
  }

 private:
  std::string_view bytes_;
  const std::string& name_;
  std::size_t offset_ = 0;
};

}  // namespace

Result<IdxImages> ParseIdxImages(std::string_view bytes, const std::string& name) {
  Header header(bytes, name);
  if (Result<void> magic = header.Magic(kImagesMagic, "images (unsigned bytes, 3 dimensions)");
      !magic.ok()) {
    return magic.error();
  }
  const Result<uint32_t> count = header.Word("the number of images");
  if (!count.ok()) return count.error();
  if (*count == 0) return At(name, 4, "expected at least one image, found a count of 0");
  std::array<uint32_t, 2> sides{};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const std::size_t offset = header.offset();
    const Result<uint32_t> side =
        header.Word(i == 0 ? "the number of rows" : "the number of columns");
    if (!side.ok()) return side.error();
    if (*side == 0 || *side > kMaxSide) {
      return At(name, offset,
                std::string("expected 1 to ") + std::to_string(kMaxSide) +
                    (i == 0 ? " rows" : " columns") + ", found " + std::to_string(*side));
    }
    sides[i] = *side;
  }
  const uint64_t size = uint64_t{*count} * sides[0] * sides[1];  // at most 2^56
  const Result<std::string_view> body =
      header.Body(size, std::to_string(*count) + " images of " + std::to_string(sides[0]) + "x" +
                            std::to_string(sides[1]));
  if (!body.ok()) return body.error();
  return IdxImages{.count = *count,
                   .rows = sides[0],
                   .columns = sides[1],
                   .pixels = std::vector<uint8_t>(body->begin(), body->end())};
}

Result<std::vector<uint8_t>> ParseIdxLabels(std::string_view bytes, const std::string& name,
                                            int classes) {
  Header header(bytes, name);
  if (Result<void> magic = header.Magic(kLabelsMagic, "labels (unsigned bytes, 1 dimension)");
      !magic.ok()) {
    return magic.error();
  }
  const Result<uint32_t> count = header.Word("the number of labels");
  if (!count.ok()) return count.error();
  const Result<std::string_view> body = header.Body(*count, std::to_string(*count) + " labels");
  if (!body.ok()) return body.error();
  std::vector<uint8_t> labels(body->begin(), body->end());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes) {
      return At(name, header.offset() + i,
                "expected labels from 0 to " + std::to_string(classes - 1) + ", found " +
                    std::to_string(labels[i]) + " as label " + std::to_string(i));
    }
  }
  return labels;
}

}  // namespace ringmaster::trainer
