// Damage: what a checkpoint's bytes say against its manifest. Not to be mixed up with a failure of
// the storage (storage::FileError), which is no verdict.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "wmtp/core/error.h"

namespace wmtp::checkpoint {

struct Damage {
  std::string file;                  // relative to the checkpoint's folder
  std::uint64_t begin = 0, end = 0;  // bytes [begin, end)
  std::string fact;                  // what differed
};
// "model/shard-..., bytes 72..1096: crc32c is 0badcafe, the manifest says 12345678"
std::string to_text(const Damage& damage);

// ErrorKind::checkpoint; `folder` stands in the message.
class DamageError : public Error {
 public:
  DamageError(Damage damage, std::string_view folder);
  const Damage& damage() const { return damage_; }

 private:
  Damage damage_;
};

}  // namespace wmtp::checkpoint
