#pragma once

// The cryptography behind credentials.h, based on OpenSSL: HKDF, Ed25519 keys in OpenSSH and PEM
// format, and a self-signed certificate that depends only on its key and name.

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace ringmaster::job {

// Derives `length` bytes from `secret` with HKDF-SHA256.
Result<std::string> Hkdf(std::string_view secret, std::string_view salt, std::string_view info,
                         std::size_t length);

struct SshKeyPair {
  std::string private_key;  // OpenSSH's format ("openssh-key-v1"), unencrypted, PEM-armoured
  std::string public_line;  // "ssh-ed25519 AAAA... comment\n"
};

// Creates the key pair from the 32 bytes of an Ed25519 private key.
Result<SshKeyPair> MakeSshKeyPair(std::string_view raw_private_key, const std::string& comment);

struct TlsKeyPair {
  std::string key_pem;
  std::string certificate_pem;  // self-signed, common name and DNS name `name`, valid 2020 to 2120
};

Result<TlsKeyPair> MakeTlsKeyPair(std::string_view raw_private_key, const std::string& name);

}  // namespace ringmaster::job
