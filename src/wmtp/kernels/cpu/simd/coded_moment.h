// Part of exact_bodies.h, behind vec.h. One block of a moment in 8 bits as fp32 numbers.
// cpu/code_search.h has the definition.
struct MomentBlock {
  float values[kElementsOfACodeBlock] = {};  // behind a short block: numbers that nobody has

  WMTP_INLINE_MEMBER void read(const CodedMoment& from, std::int64_t block, std::int64_t count) {
    const float scale = from.scales[block];
    const std::uint8_t* codes = from.codes + block * kElementsOfACodeBlock;
    for (std::int64_t i = 0; i < count; ++i) values[i] = from.table->values[codes[i]] * scale;
  }

  WMTP_INLINE_MEMBER void write(const CodedMoment& to, std::int64_t block, std::int64_t count) {
    const CodeTable& table = *to.table;
    const float largest = largest_magnitude(count);
    const float scale = largest < table.least_scale ? table.least_scale : largest;
    to.scales[block] = scale;
    scale_down(scale, table, count);
    std::uint8_t* codes = to.codes + block * kElementsOfACodeBlock;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint8_t code = table.start[bits_of(i) >> 16];
      codes[i] = static_cast<std::uint8_t>(code + (table.step[code] <= values[i] ? 1 : 0));
    }
  }

 private:
  WMTP_INLINE_MEMBER std::uint32_t bits_of(std::int64_t i) const {
    std::uint32_t bits;
    __builtin_memcpy(&bits, values + i, sizeof bits);
    return bits;
  }

  WMTP_INLINE_MEMBER float largest_magnitude(std::int64_t count) const {
    std::int32_t largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto magnitude = static_cast<std::int32_t>(bits_of(i) & 0x7fffffffu);
      largest = magnitude > largest ? magnitude : largest;
    }
    float magnitude;
    __builtin_memcpy(&magnitude, &largest, sizeof magnitude);
    return magnitude;
  }

  // What has a history, but would take code 0 (or none, as infinity over infinity), is raised to
  // where code 1 begins.
  WMTP_INLINE_MEMBER void scale_down(float scale, const CodeTable& table, std::int64_t count) {
    const float first = table.step[0], least = table.least_with_history;
    for (std::int64_t i = 0; i < count; ++i) {
      const float moment = values[i], y = moment / scale, with_history = y >= first ? y : first;
      values[i] = moment > least ? with_history : y;
    }
  }
};
