// Vectors V09 - V19 and V25, packing, NaN where nothing reads it, and what is refused.
#include "wmtp/weighting/td.h"

#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"
#include "support/packed_rows.h"
#include "wmtp/weighting/weights.h"

namespace wmtp::weighting {
namespace {

using test::MaskRow;
using test::numbers;
using test::packed;
using test::responses;
using test::Row;

using test::kNaN;
using test::kTolerance;
const MaskRow kThree{1, 1, 1};
const WeightOptions kTd0Clip{0.9, 0.1, 5}, kGaeClip{1, 0.1, 3};

struct Case {
  TdOptions options = {};
  Row values, reward{1};
  MaskRow mask = kThree;

  Row x(DType dtype = kFloat64) const {
    return numbers(td_error(options, packed({values}, dtype), responses({mask}, reward, dtype)));
  }
  Row w(const WeightOptions& clip = kTd0Clip, DType dtype = kFloat64) const {
    const auto docs = responses({mask}, reward, dtype);
    const Tensor x_N = td_error(options, packed({values}, dtype), docs);
    return numbers(token_weights(x_N, docs.mask_N, clip).weights_N);
  }
  std::int64_t bad() const {
    return bad_values(options, packed({values}), responses({mask}, reward)).item<std::int64_t>();
  }
};

TdOptions gae(double lambda, double gamma = 1, Terminal terminal = Terminal::value) {
  return {TdMode::gae, gamma, lambda, 0.5, terminal};
}

// Vectors V09 to V11.
TEST(Td0, ErrorsAndWeightsForBothRewardsAndDiscounted) {
  const Row values{.5, .7, .9};
  for (const DType dtype : {kFloat64, kFloat32}) {
    const Case right{{}, values}, wrong{{}, values, {0}};
    EXPECT_NUMBERS(right.x(dtype), (Row{0, .2, .1}), kTolerance);
    EXPECT_NUMBERS(right.w(kTd0Clip, dtype), (Row{1, 1.248849, 1.117519}), kTolerance);
    EXPECT_NUMBERS(wrong.x(dtype), (Row{0, .2, -.9}), kTolerance);
    EXPECT_NEAR(wrong.w(kTd0Clip, dtype)[2], .367879, kTolerance);
    const Case discounted{{.gamma = .99}, values};
    EXPECT_NUMBERS(discounted.x(dtype), (Row{-.005, .193, .1}), kTolerance);
    EXPECT_NUMBERS(discounted.w(kTd0Clip, dtype), (Row{.994460, 1.239173, 1.117519}), kTolerance);
  }
}

// Vector V12.
TEST(Td0, MaskedNaNIsNeverRead) {
  const Case a{{}, {kNaN, .3, .5, .7, .9, kNaN}, {1}, {0, 0, 1, 1, 1, 0}};
  EXPECT_NUMBERS(a.w(), (Row{0, 0, 1.248849, 1.248849, 1.117519, 0}), kTolerance);
  EXPECT_EQ(a.bad(), 0);
}

// Vectors V13 to V15.
TEST(Td0, ClippedWeightsSingleTokensAndFlatValues) {
  const Case wide{{}, {-.8, 1, .4}};
  EXPECT_NUMBERS(wide.x(), (Row{-1.3, 1.8, .6}), kTolerance);
  EXPECT_NUMBERS(wide.w(), (Row{.235877, 5, 1.947734}), kTolerance);
  EXPECT_NUMBERS((Case{{}, {2.5}, {0}, {1}}).w(), (Row{.1}), kTolerance);
  EXPECT_NUMBERS((Case{{}, {.4}, {1}, {1}}).w(), (Row{1.947734}), kTolerance);
  EXPECT_NUMBERS((Case{{}, {0, 0, 0}}).w(), (Row{.573753, 1, 3.037732}), kTolerance);
}

// Vectors V16 to V19.
TEST(Gae, LambdasDiscountsPromptsAndTerminals) {
  const Row values{.5, .7, .9};
  EXPECT_NUMBERS((Case{gae(0), values}).x(), (Row{0, .2, .2}), kTolerance);
  EXPECT_NUMBERS((Case{gae(.95), values}).x(), (Row{.3705, .39, .2}), kTolerance);
  EXPECT_NUMBERS((Case{gae(1), values}).x(), (Row{.4, .4, .2}), kTolerance);
  EXPECT_NUMBERS((Case{gae(0, .99), values}).x(), (Row{-.005, .193, .191}), kTolerance);
  EXPECT_NUMBERS((Case{gae(.95, .99), values}).x(), (Row{.3454637, .3726355, .191}), kTolerance);
  Case prompt{gae(.95), {.2, .4, .5, .7, .9}, {1}, {0, 0, 1, 1, 1}};
  EXPECT_NUMBERS(prompt.x(), (Row{0, 0, .4705, .39, .2}), kTolerance);
  prompt.options.terminal = Terminal::reward;
  EXPECT_NUMBERS(prompt.x(), (Row{0, 0, .56075, .485, .3}), kTolerance);
  prompt.reward = {0};
  EXPECT_NUMBERS(prompt.x(), (Row{0, 0, -.34175, -.465, -.7}), kTolerance);
  prompt.options = gae(1, 1, Terminal::monte_carlo), prompt.reward = {1};
  EXPECT_NUMBERS(prompt.x(), (Row{0, 0, .5, .3, .1}), kTolerance);
}

// Vector V25.
TEST(Gae, SmallDifferencesSurvive) {
  const Case small{gae(0), {1.5, 1.502, 1.502}, {1}, {0, 1, 0}};
  EXPECT_NEAR(small.w(kGaeClip, kFloat32)[1], 1.002002, kTolerance);
}

// Documents side by side give what each gives alone; an empty one and a prompt-only one give 0.
TEST(Td, PackedEqualsAlone) {
  const std::vector<Row> values{{.1, .9, .4}, {}, {.3, .2, .8, .7, .5}, {.6}, {.2, .1}};
  const std::vector<MaskRow> masks{{1, 1, 1}, {}, {0, 1, 0, 1, 0}, {1}, {0, 0}};
  const Row rewards{1, 0, .25, 0, 1};
  for (const TdOptions& options : {TdOptions{}, gae(.7, .9), gae(.7, .9, Terminal::reward),
                                   gae(1, 1, Terminal::monte_carlo)}) {
    Row alone;
    for (std::size_t d = 0; d < values.size(); ++d) {
      const Row x = (Case{options, values[d], {rewards[d]}, masks[d]}).x();
      alone.insert(alone.end(), x.begin(), x.end());
    }
    const Row together = numbers(td_error(options, packed(values), responses(masks, rewards)));
    EXPECT_EQ(together, alone);
    EXPECT_EQ(together[9], 0);
    EXPECT_EQ(together[10], 0);
  }
}

// One position after the other is NaN: the count is 1 exactly where the result depends on it.
TEST(Td, BadValuesAreThoseThatAreRead) {
  for (const TdOptions& options :
       {TdOptions{}, gae(.7, .9), gae(.7, .9, Terminal::reward), gae(1, 1, Terminal::monte_carlo)})
    for (const MaskRow& mask :
         {MaskRow{0, 0, 1, 1, 1, 0}, MaskRow{1, 0, 1, 0, 0, 1}, MaskRow{0, 0, 0, 1, 0, 0},
          MaskRow{1, 0, 0, 0, 0, 0}, MaskRow{0, 0, 0, 0, 0, 0}})
      for (std::size_t i = 0; i < 6; ++i) {
        Case c{options, {.3, .1, .4, .1, .5, .9}, {1}, mask};
        c.values[i] = kNaN;
        bool reached = false;
        for (const double x : c.x()) reached = reached || std::isnan(x);
        EXPECT_EQ(c.bad(), reached ? 1 : 0) << "position " << i;
        c.values[i] = std::numeric_limits<double>::infinity();
        EXPECT_EQ(c.bad(), reached ? 1 : 0) << "position " << i;
      }
}

TEST(Td, RefusesWhatCannotBe) {
  EXPECT_WMTP_ERROR(check(TdOptions{.gamma = 0}), ErrorKind::config, "td.gamma is 0");
  EXPECT_WMTP_ERROR(check(gae(1.5)), ErrorKind::config, "td.lambda is 1.5");
  EXPECT_WMTP_ERROR(check(TdOptions{.v_init = kNaN}), ErrorKind::config, "td.v_init");
  EXPECT_WMTP_ERROR(check(gae(.95, 1, Terminal::monte_carlo)), ErrorKind::config, "monte_carlo");
  EXPECT_NO_THROW(check(TdOptions{.terminal = Terminal::monte_carlo}));  // td0 does not read it
}

}  // namespace
}  // namespace wmtp::weighting
