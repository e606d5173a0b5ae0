#include "wmtp/checkpoint/format/damage.h"

#include <fmt/format.h>

namespace wmtp::checkpoint {

std::string to_text(const Damage& damage) {
  return fmt::format("{}, bytes {}..{}: {}", damage.file, damage.begin, damage.end, damage.fact);
}

DamageError::DamageError(Damage damage, std::string_view folder)
    : Error(ErrorKind::checkpoint, "checkpoint",
            fmt::format("{} is damaged: {}", folder, to_text(damage)),
            "`wmtp checkpoint list` shows the others; --resume auto takes the newest whole one"),
      damage_(std::move(damage)) {}

}  // namespace wmtp::checkpoint
