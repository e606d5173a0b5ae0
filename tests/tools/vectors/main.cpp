// wmtp_vectors: the functions of weighting/, losses/, optim/ and the small model parts from
// outside, in double precision, for independent implementations to compare with.
//   stdin: {"id": .., "family": "td0", "in": {..}} per line; stdout: {"id": .., "out": {..}}, or
//   {"id": .., "error": ".."} for an input that is refused.
// Families and their fields: docs/stages.md, last section.
#include <iostream>
#include <string>

#include "support/simd_limit.h"
#include "tools/vectors/families.h"
#include "tools/vectors/json_tensors.h"

namespace {

using namespace wmtp;

vectors::Families all_families() {
  vectors::Families all;
  for (const auto& make :
       {vectors::weighting_families, vectors::rho1_families, vectors::loss_families,
        vectors::model_families, vectors::float8_families, vectors::optimizer_families,
        vectors::quantisation_families})
    all.merge(make());
  return all;
}

Json answer(const vectors::Families& families, const Json& question) {
  const std::string name = question.at("family").get<std::string>();
  const auto family = families.find(name);
  if (family == families.end())
    throw Error(ErrorKind::data, "vectors", "there is no family '" + name + "'");
  return family->second(question.at("in"));
}

}  // namespace

int main() {
  if (!test::limit_simd_by_environment()) return 1;
  const vectors::Families families = all_families();
  for (std::string line; std::getline(std::cin, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json reply{{"id", nullptr}};
    try {
      const Json question = vectors::parse_line(line);
      reply["id"] = question.value("id", Json(nullptr));
      reply["out"] = answer(families, question);
    } catch (const std::exception& error) {
      reply["error"] = error.what();
    }
    std::cout << reply.dump() << std::endl;
  }
  return 0;
}
