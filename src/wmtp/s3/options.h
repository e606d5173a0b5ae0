// What a user may set about S3: the keys of storage.s3.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "wmtp/http/client.h"

namespace wmtp::s3 {

enum class Addressing { automatic, path, virtual_host };
enum class Checksum { md5, crc32c, none };

inline constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;

struct Options {
  std::string bucket = {}, prefix = {};
  std::string endpoint = {};  // empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile, AWS
  std::string region = {};    // empty: AWS_REGION, AWS_DEFAULT_REGION, the profile, us-east-1
  std::string profile = {};   // empty: AWS_PROFILE
  Addressing addressing = Addressing::automatic;  // path for custom endpoints, else virtual host
  std::uint64_t part_bytes = 16 * kMebibyte;      // 5 MiB to 5 GiB
  int concurrency = 4;
  int retries = 8;
  std::chrono::milliseconds first_wait{500};  // before the second try, at most; later ones double
  Checksum checksum = Checksum::md5;
  bool allow_http = false;  // credentials over plain http to other machines

  http::ClientOptions http = {};  // its env is where all variables come from
};

}  // namespace wmtp::s3
