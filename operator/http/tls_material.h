#pragma once

// Checks PEM text before a client is created with it, so that an invalid file is reported when it
// is read, not at the first connection. Used by CpprestHttpClientFactory.

#include <string>

#include "common/base/result.h"

namespace ringmaster::http {

// Returns kInvalid unless `pem` contains at least one valid certificate.
Result<void> CheckCertificates(const std::string& pem);

// Returns kInvalid unless the first certificate and the private key are valid and match.
Result<void> CheckKeyPair(const std::string& certificate_pem, const std::string& key_pem);

}  // namespace ringmaster::http
