#include "common/control/secrets.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "common/base/hex.h"
#include "common/json/json.h"

namespace ringmaster::control {
namespace {

using Digest = std::array<unsigned char, 32>;

Digest Sha256(std::string_view bytes) {
  Digest digest{};
  unsigned int size = 0;
  // Fails only if memory is exhausted. The digest is then all zero, unlike any real digest.
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return digest;
}

Error System(const std::string& doing) {
  return Error{ErrorKind::kUnavailable, "while " + doing + ": " + std::strerror(errno)};
}

Result<void> WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno != EINTR) return System("writing");
    if (n > 0) content.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

bool SecretsEqual(std::string_view a, std::string_view b) {
  // Hashes have equal lengths, so the comparison does not depend on the lengths of the secrets.
  const Digest digest_a = Sha256(a);
  const Digest digest_b = Sha256(b);
  return CRYPTO_memcmp(digest_a.data(), digest_b.data(), digest_a.size()) == 0 && !a.empty();
}

std::string Sha256Hex(std::string_view bytes) {
  const Digest digest = Sha256(bytes);
  return HexOf({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

Result<std::map<std::string, std::string>> LoadCredentials(const std::string& directory,
                                                           std::string_view hashes_json) {
  const auto fail = [](const std::string& reason) {
    return Error{ErrorKind::kInvalid, "while checking the job's credentials: " + reason};
  };
  Result<Json> json = ParseJsonObject(hashes_json);
  if (!json.ok()) return fail("the list of their hashes is unusable: " + json.error().message);
  std::map<std::string, std::string> items;
  for (const auto& [name, hash] : json->items()) {
    if (!hash.is_string() || name.find('/') != std::string::npos) {
      return fail("the list of their hashes is unusable at '" + name + "'");
    }
    std::ifstream file(directory + "/" + name, std::ios::binary);
    if (!file) return fail("item " + name + " cannot be read in " + directory);
    std::ostringstream content;
    content << file.rdbuf();
    items[name] = content.str();
    if (Sha256Hex(items[name]) != hash.get_ref<const std::string&>()) {
      return fail("item " + name +
                  " does not match what the operator created for this job: the mounted Secret was "
                  "replaced");
    }
  }
  return items;
}

Result<void> MakePrivateDirectory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return Error{ErrorKind::kUnavailable,
                 "while creating the directory " + directory + ": " + error.message()};
  }
  if (::chmod(directory.c_str(), 0700) != 0) return System("making " + directory + " private");
  return {};
}

Result<void> WriteFileAtomically(const std::string& path, std::string_view content, unsigned mode) {
  const std::string aside = path + ".new";
  const std::string doing = "writing " + path;
  ::unlink(aside.c_str());
  const int fd = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return System(doing);
  ::fchmod(fd, mode);  // the umask may have removed bits
  const Result<void> written = WriteAll(fd, content);
  if (::close(fd) != 0 && written.ok()) return System(doing);
  if (!written.ok()) return written.error().WithContext(doing);
  if (::rename(aside.c_str(), path.c_str()) != 0) return System(doing);
  return {};
}

}  // namespace ringmaster::control
