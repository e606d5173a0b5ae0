// Part of exact_bodies.h, behind vec.h. The random numbers of consecutive elements (adamw.h): one
// call of Philox4x32-10 (core/rng.h) to each 64-bit lane, whose lower half is the word.
constexpr int kCalls = kVecBytes / 8;
typedef std::uint64_t Longs __attribute__((vector_size(kVecBytes)));
typedef std::uint64_t LongsAnywhere __attribute__((vector_size(kVecBytes), aligned(4), may_alias));
typedef std::uint32_t WordsAnywhere __attribute__((vector_size(kVecBytes), aligned(4), may_alias));

constexpr std::uint64_t kLowWord = 0xffffffffu;

// Of the lower halves, which the compiler does not find in a product of 64 bits.
WMTP_INLINE Longs product_of_words(Longs a, std::uint64_t word) {
  const Longs b = Longs{} + word;
#if defined(__AVX512F__)
  // With a mask of all lanes, as g++ 12 warns of its own header without one.
  return reinterpret_cast<Longs>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Longs>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<Longs>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & kLowWord) * b;
#endif
}

// The two words of each element, as adamw.h deals them out.
struct Draw {
  Words word, next;

  WMTP_INLINE_MEMBER Words param() const { return word & 0xffffu; }
  WMTP_INLINE_MEMBER Words exp_avg() const { return word >> 16; }
  WMTP_INLINE_MEMBER Words exp_avg_sq() const { return next & 0xffffu; }
};

constexpr std::int64_t kDrawnElements = kElementsOfACodeBlock;

class Draws {
 public:
  // For elements of the range from `first` on, at most kDrawnElements. A call serves two elements,
  // so that an odd one is drawn together with the one before it.
  WMTP_INLINE_MEMBER void draw(const RoundedMaster& a, std::int64_t first, std::int64_t count) {
    const std::uint64_t element = a.first_element + static_cast<std::uint64_t>(first);
    skipped_ = static_cast<std::int64_t>(element % 2);
    Longs index;
    for (int i = 0; i < kCalls; ++i) index[i] = element / 2 + static_cast<std::uint64_t>(i);
    for (std::int64_t i = 0; i < count + skipped_; i += 2 * kCalls, index += kCalls)
      call(a, index, i);
  }
  // Of the elements from i on, counted from `first`.
  WMTP_INLINE_MEMBER Draw at(std::int64_t i) const {
    return {*reinterpret_cast<const WordsAnywhere*>(words_ + skipped_ + i),
            *reinterpret_cast<const WordsAnywhere*>(next_ + skipped_ + i)};
  }

 private:
  // The upper halves of counters hold what is left of the products: only lower ones are multiplied.
  WMTP_INLINE_MEMBER void call(const RoundedMaster& a, Longs index, std::int64_t to) {
    Longs c0 = index, c1 = index >> 32, c2 = Longs{} + (a.stream & kLowWord),
          c3 = Longs{} + (a.stream >> 32);
    auto key0 = static_cast<std::uint32_t>(a.seed), key1 = static_cast<std::uint32_t>(a.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const Longs p0 = product_of_words(c0, 0xD2511F53u), p1 = product_of_words(c2, 0xCD9E8D57u);
      c0 = (p1 >> 32) ^ c1 ^ std::uint64_t{key0}, c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ std::uint64_t{key1}, c3 = p0;
      key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    *reinterpret_cast<LongsAnywhere*>(words_ + to) = (c0 & kLowWord) | c2 << 32;
    *reinterpret_cast<LongsAnywhere*>(next_ + to) = (c1 & kLowWord) | c3 << 32;
  }

  std::int64_t skipped_ = 0;
  // A last call may draw for elements that nobody has.
  std::uint32_t words_[kDrawnElements + 2 * kLanes] = {}, next_[kDrawnElements + 2 * kLanes] = {};
};
