#include "common/base/base64.h"

#include <openssl/evp.h>

namespace ringmaster {
namespace {

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');  // OpenSSL also writes a NUL at the end
  EVP_EncodeBlock(Bytes(text), Bytes(bytes), static_cast<int>(bytes.size()));
  return text;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  if (text.size() % 4 != 0 ||
      EVP_DecodeBlock(Bytes(bytes), Bytes(text), static_cast<int>(text.size())) !=
          static_cast<int>(bytes.size())) {
    return std::nullopt;
  }
  bytes.resize(bytes.size() - (text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0));
  // OpenSSL also accepts white space, and padding bits that are not zero.
  if (EncodeBase64(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace ringmaster
