#include "operator/http/tls_material.h"

#include <memory>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace ringmaster::http {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

std::unique_ptr<BIO, Free> Reader(const std::string& text) {
  return std::unique_ptr<BIO, Free>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::unique_ptr<X509, Free> ReadCertificate(const std::string& pem) {
  const auto reader = Reader(pem);
  std::unique_ptr<X509, Free> certificate(
      PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  return certificate;
}

}  // namespace

Result<void> CheckCertificates(const std::string& pem) {
  if (ReadCertificate(pem) == nullptr) {
    return Error{ErrorKind::kInvalid, "the text does not contain a valid PEM certificate"};
  }
  return {};
}

Result<void> CheckKeyPair(const std::string& certificate_pem, const std::string& key_pem) {
  const auto certificate = ReadCertificate(certificate_pem);
  if (certificate == nullptr)
    return Error{ErrorKind::kInvalid, "the client certificate is not valid PEM"};
  const auto reader = Reader(key_pem);
  const std::unique_ptr<EVP_PKEY, Free> key(
      PEM_read_bio_PrivateKey(reader.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (key == nullptr) return Error{ErrorKind::kInvalid, "the client key is not valid PEM"};
  const bool match = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!match)
    return Error{ErrorKind::kInvalid, "the client key does not match the client certificate"};
  return {};
}

}  // namespace ringmaster::http
