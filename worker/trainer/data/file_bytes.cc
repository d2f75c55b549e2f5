#include "worker/trainer/data/file_bytes.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include <zlib.h>

namespace ringmaster::trainer {
namespace {

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<std::remove_pointer_t<gzFile>, CloseGzip>;

// The file may be fine, but its volume failed.
bool IsOfVolume(int error) {
  return error == EIO || error == ESTALE || error == ETIMEDOUT || error == ENOTCONN;
}

Error ReadError(const std::string& path, gzFile file, std::size_t offset) {
  int code = Z_OK;
  const char* text = gzerror(file, &code);
  const int error = code == Z_ERRNO ? errno : 0;
  const std::string reason = error != 0 ? std::strerror(error) : text;
  const char* where = gzdirect(file) != 0 ? ", offset " : ", unpacked offset ";
  return {IsOfVolume(error) ? ErrorKind::kUnavailable : ErrorKind::kInvalid,
          path + where + std::to_string(offset) + ": failed to read more data: " + reason +
              (code == Z_BUF_ERROR ? " (the gzip stream is truncated)" : "")};
}

}  // namespace

Result<std::string> ReadMaybeGzip(const std::string& path, std::size_t limit_bytes) {
  errno = 0;
  const GzipFile file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    const ErrorKind kind = errno == ENOENT     ? ErrorKind::kNotFound
                           : IsOfVolume(errno) ? ErrorKind::kUnavailable
                                               : ErrorKind::kInvalid;
    return Error{kind, path + ": cannot open it: " + std::strerror(errno)};
  }
  gzbuffer(file.get(), 1 << 17);
  std::string bytes;
  constexpr std::size_t kChunk = 1 << 20;
  for (;;) {
    const std::size_t offset = bytes.size();
    if (offset > limit_bytes) {
      return Error{ErrorKind::kInvalid, path + ": it is larger than " +
                                            std::to_string(limit_bytes) + " bytes when unpacked"};
    }
    bytes.resize(offset + kChunk);
    const int read = gzread(file.get(), bytes.data() + offset, static_cast<unsigned>(kChunk));
    if (read < 0) return ReadError(path, file.get(), offset);
    bytes.resize(offset + static_cast<std::size_t>(read));
    if (static_cast<std::size_t>(read) < kChunk) {
      int code = Z_OK;
      gzerror(file.get(), &code);
      if (code != Z_OK) return ReadError(path, file.get(), bytes.size());
      return bytes;
    }
  }
}

}  // namespace ringmaster::trainer
