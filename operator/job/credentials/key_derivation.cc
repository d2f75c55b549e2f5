#include "operator/job/credentials/key_derivation.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include "common/base/base64.h"

namespace ringmaster::job {

namespace {

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* object) const { Free(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;
using Kdf = std::unique_ptr<EVP_KDF, Freer<EVP_KDF, EVP_KDF_free>>;
using KdfContext = std::unique_ptr<EVP_KDF_CTX, Freer<EVP_KDF_CTX, EVP_KDF_CTX_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION, X509_EXTENSION_free>>;
struct BioFreer {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
};
using Bio = std::unique_ptr<BIO, BioFreer>;

constexpr std::size_t kKeyBytes = 32;
constexpr std::array<char, 15> kOpenSshMagic{'o', 'p', 'e', 'n', 's', 's', 'h', '-',
                                             'k', 'e', 'y', '-', 'v', '1', '\0'};

Error OpenSslError(const std::string& doing) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return {ErrorKind::kInternal,
          "while " + doing + ": " +
              (reason == nullptr ? "OpenSSL failed without an error" : std::string(reason))};
}

unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Result<Key> LoadKey(std::string_view raw) {
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Bytes(raw), raw.size()));
  if (key == nullptr) return OpenSslError("loading an Ed25519 key");
  return key;
}

Result<std::string> PublicKeyOf(const Key& key) {
  std::string bytes(kKeyBytes, '\0');
  std::size_t length = bytes.size();
  if (EVP_PKEY_get_raw_public_key(key.get(), Bytes(bytes), &length) != 1) {
    return OpenSslError("reading the public half of a key");
  }
  return bytes;
}

// The SSH wire format: a number is four big-endian bytes; a string is its length and its bytes.
void PutNumber(std::string& out, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>((number >> shift) & 0xffU));
  }
}
void PutString(std::string& out, std::string_view text) {
  PutNumber(out, static_cast<std::uint32_t>(text.size()));
  out.append(text);
}

std::string PublicBlob(std::string_view public_key) {
  std::string blob;
  PutString(blob, "ssh-ed25519");
  PutString(blob, public_key);
  return blob;
}

// Returns the part of a key file that OpenSSH encrypts if the key has a passphrase. It starts with
// two equal numbers, by which OpenSSH detects a wrong passphrase. Without a passphrase, any numbers
// are valid, so they are taken from the public key.
std::string PrivateBlob(std::string_view raw, std::string_view public_key,
                        const std::string& comment) {
  std::uint32_t check = 0;
  for (std::size_t i = 0; i < sizeof(check); ++i) {
    check = (check << 8) | static_cast<unsigned char>(public_key[i]);
  }
  std::string blob;
  PutNumber(blob, check);
  PutNumber(blob, check);
  PutString(blob, "ssh-ed25519");
  PutString(blob, public_key);
  PutString(blob, std::string(raw) + std::string(public_key));
  PutString(blob, comment);
  for (char pad = 1; blob.size() % 8 != 0; ++pad) blob.push_back(pad);
  return blob;
}

// Encodes bytes as PEM (RFC 7468). `columns`: maximum number of characters in a line.
std::string Armour(const std::string& label, const std::string& bytes, std::size_t columns) {
  const std::string text = EncodeBase64(bytes);
  std::string out = "-----BEGIN " + label + "-----\n";
  for (std::size_t at = 0; at < text.size(); at += columns) out += text.substr(at, columns) + "\n";
  return out + "-----END " + label + "-----\n";
}

// An Ed25519 key in PKCS #8 is this prefix followed by the raw key (RFC 8410, section 10.3). This
// code does not use OpenSSL's encoders, because they take most of the time to create a job's keys.
constexpr std::array<char, 16> kPkcs8Prefix{0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                            0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

// Does the same as X509_set_pubkey(), but without OpenSSL's encoder.
bool SetPublicKey(X509* certificate, std::string_view public_key) {
  void* bytes = OPENSSL_memdup(public_key.data(), public_key.size());
  if (bytes != nullptr &&
      X509_PUBKEY_set0_param(X509_get_X509_PUBKEY(certificate), OBJ_nid2obj(NID_ED25519),
                             V_ASN1_UNDEF, nullptr, static_cast<unsigned char*>(bytes),
                             static_cast<int>(public_key.size())) == 1) {
    return true;
  }
  OPENSSL_free(bytes);
  return false;
}

bool AddExtension(X509* certificate, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Sets the serial number to the start of SHA-256(name), without a counter or randomness.
bool SetSerial(X509* certificate, const std::string& name) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(Bytes(std::string_view(name)), name.size(), digest.data());
  digest[0] = static_cast<unsigned char>((digest[0] & 0x7fU) | 0x40U);  // positive, never zero
  BIGNUM* number = BN_bin2bn(digest.data(), 16, nullptr);
  const bool done = number != nullptr &&
                    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return done;
}

// Sets the fields of the certificate. The subject is the same for all jobs, because job names with
// UIDs may exceed the 64 characters of a common name; clients check the DNS name. The certificate
// is not a CA certificate, so clients that trust it trust only this certificate.
bool FillCertificate(X509* certificate, EVP_PKEY* key, std::string_view public_key,
                     const std::string& name) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const std::string common_name = name.size() <= 64 ? name : "launcher.ringmaster.dev";
  return X509_set_version(certificate, X509_VERSION_3) == 1 && SetSerial(certificate, name) &&
         ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), "20200101000000Z") == 1 &&
         ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), "21200101000000Z") == 1 &&
         X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                    Bytes(std::string_view(common_name)),
                                    static_cast<int>(common_name.size()), -1, 0) == 1 &&
         X509_set_issuer_name(certificate, subject) == 1 && SetPublicKey(certificate, public_key) &&
         AddExtension(certificate, NID_subject_alt_name, "DNS:" + name) &&
         AddExtension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
         AddExtension(certificate, NID_ext_key_usage, "serverAuth") &&
         X509_sign(certificate, key, nullptr) > 0;
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return length > 0 ? std::string(data, static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

Result<std::string> Hkdf(std::string_view secret, std::string_view salt, std::string_view info,
                         std::size_t length) {
  const Kdf kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const KdfContext context(kdf == nullptr ? nullptr : EVP_KDF_CTX_new(kdf.get()));
  if (context == nullptr) return OpenSslError("deriving a key");
  char digest[] = "SHA256";
  std::string secret_bytes(secret);
  std::string salt_bytes(salt);
  std::string info_bytes(info);
  const std::array parameters{
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret_bytes.data(),
                                        secret_bytes.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt_bytes.data(), salt_bytes.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info_bytes.data(), info_bytes.size()),
      OSSL_PARAM_construct_end()};
  std::string out(length, '\0');
  if (EVP_KDF_derive(context.get(), Bytes(out), out.size(), parameters.data()) != 1) {
    return OpenSslError("deriving a key");
  }
  return out;
}

Result<SshKeyPair> MakeSshKeyPair(std::string_view raw_private_key, const std::string& comment) {
  const Result<Key> key = LoadKey(raw_private_key);
  if (!key.ok()) return key.error();
  const Result<std::string> public_key = PublicKeyOf(*key);
  if (!public_key.ok()) return public_key.error();
  const std::string public_blob = PublicBlob(*public_key);
  std::string file(kOpenSshMagic.data(), kOpenSshMagic.size());
  PutString(file, "none");  // cipher
  PutString(file, "none");  // key derivation
  PutString(file, "");      // options of the key derivation
  PutNumber(file, 1);       // number of keys
  PutString(file, public_blob);
  PutString(file, PrivateBlob(raw_private_key, *public_key, comment));
  return SshKeyPair{
      .private_key = Armour("OPENSSH PRIVATE KEY", file, 70),
      .public_line = "ssh-ed25519 " + EncodeBase64(public_blob) + " " + comment + "\n"};
}

Result<TlsKeyPair> MakeTlsKeyPair(std::string_view raw_private_key, const std::string& name) {
  const Result<Key> key = LoadKey(raw_private_key);
  if (!key.ok()) return key.error();
  const Result<std::string> public_key = PublicKeyOf(*key);
  if (!public_key.ok()) return public_key.error();
  const Certificate certificate(X509_new());
  if (certificate == nullptr ||
      !FillCertificate(certificate.get(), key->get(), *public_key, name)) {
    return OpenSslError("making the launcher's certificate");
  }
  const Bio certificate_text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_text.get(), certificate.get()) != 1) {
    return OpenSslError("writing the launcher's certificate");
  }
  std::string pkcs8(kPkcs8Prefix.data(), kPkcs8Prefix.size());
  pkcs8 += raw_private_key;
  return TlsKeyPair{.key_pem = Armour("PRIVATE KEY", pkcs8, 64),
                    .certificate_pem = TextOf(certificate_text.get())};
}

}  // namespace ringmaster::job
