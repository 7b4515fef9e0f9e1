"""Errors in the perceptrons, AdaBoost.OLM++ and AdaHedge: signs, 1/p, the wrong weights updated."""

from tests.mutation.mutation import Errors

PERCEPTRONS = (
    Errors(
        concept="banditron",
        home="Banditron",
        laws=(
            "test_traces::test_micro_trace[banditron]",
            "test_order_of_arrival_does_not_matter",
            "test_falling_exploration",
        ),
        errors=(
            ("missing 1/p", "_fold", "1.0 / rounds.propensities[t]", "1.0"),
            ("argmax over updated W", "_fold", "rounds.evidence[t, 0]", "(values @ state.weights[indices]).argmax()"),
            ("subtracts from the label served", "_fold", "rounds.evidence[t, 0]", "rounds.labels[t]"),
            ("leader's weights not reduced", "_fold", "-1.0", "0.0"),
            ("t one too large", "_decide", "state.rounds.item()", "state.rounds.item() + 1"),
            (
                "no floor of the theorem's exploration",
                "_schedule",
                "Schedule(learner.theorem_constant, 1 / 3, learner.least_exploration)",
                "Schedule(learner.theorem_constant, 1 / 3, 0.0)",
            ),
            ("square root in place of cube root", "_schedule", "3", "2"),
        ),
    ),
    Errors(
        concept="perceptron",
        home="Perceptron",
        laws=("test_traces::test_micro_trace[perceptron]", "test_order_of_arrival_does_not_matter"),
        errors=(
            (
                "argmax over updated W",
                "_fold",
                "rounds.evidence[t, 0]",
                "(row(rounds.contexts, t)[1] @ state.weights[row(rounds.contexts, t)[0]]).argmax()",
            ),
            (
                "ascent",
                "_fold",
                "add_to_label(state.weights, y, 1.0, indices, values)",
                "add_to_label(state.weights, y, -1.0, indices, values)",
            ),
            ("leader's weights not reduced", "_fold", "-1.0", "0.0"),
        ),
    ),
    Errors(
        concept="bandit perceptrons",
        home="BanditPerceptrons",
        laws=(
            "test_bandit_perceptrons::test_micro_trace",
            "test_perceptron_is_corrected_only_if_it_errs_now",
            "test_bandit_perceptrons::test_long_trace",
        ),
        errors=(
            (
                "present claims in place of the stored ones",
                "_correct_all",
                "not nobody and s[label] >= 0.0",
                "s[label] >= 0.0",
            ),
            ("wrong answers update twice", "_correct_all", "not nobody and s[label] >= 0.0", "not nobody"),
            ("corrects a claim already made", "_correct_all", "s[label] <= 0.0", "s[label] >= 0.0"),
            ("correct claims update although known labels are unused", "_correct_all", "nobody or known", "True"),
            (
                "label served subtracted",
                "_correct_all",
                "coefficients[label] = 1.0",
                "coefficients[label] = -1.0",
            ),
        ),
    ),
    Errors(
        concept="bandit perceptrons' kernel",
        home="BanditPerceptronsKernel",
        laws=("test_bandit_perceptrons::test_micro_trace",),
        errors=(("rational kernel with 1/4 in place of 1/2", "rational_kernel", "0.5", "0.25"),),
    ),
    Errors(
        concept="full support",
        home="BanditPerceptronsKernel",
        laws=("test_full_support_gives_a_warning",),
        errors=(
            ("no warning at the limit", "warnings", "state.used < self.max_support", "state.used <= self.max_support"),
        ),
    ),
    Errors(
        concept="bandit perceptrons' feature map",
        home="BanditPerceptronsFeatures",
        laws=(
            "test_a_lower_degree_is_a_partial_sum",
            "test_longer_contexts_are_scaled_to_the_ball",
            "test_the_mistakes_are_those_of_the_kernel",
            "test_the_default_degree_is_exact_for_few_features",
            "test_a_degree_with_too_many_monomials_is_refused",
        ),
        errors=(
            ("monomials without 2^-n", "expand", "0.5 * n", "1.0 * n"),
            ("multinomial coefficient without α!", "expand", "exponents[start + j] + 1", "1"),
            ("longer contexts not scaled", "expand", "max(1.0, squared_norm(x))", "1.0"),
            ("monomials in the last variable left out", "expand", "count * (n - 1 + i) // i", "count"),
            (
                "default beyond the limit",
                "_largest_degree",
                "math.comb(d + n, n) <= most",
                "math.comb(d + n - 1, n) <= most",
            ),
            ("limit without the number of features", "__post_init__", "self.features > _MOST_FEATURES", "False"),
        ),
    ),
    Errors(
        concept="adahedge",
        home="AdaHedge",
        laws=("test_adahedge::test_micro_trace", "test_sparse_contexts_equal_dense_ones"),
        errors=(
            (
                "losses for the other answer",
                "_charge",
                "1.0 - y * _clipped(values[position])",
                "1.0 + y * _clipped(values[position])",
            ),
            ("ln 2d in place of ln d", "_temperature", "math.log(d)", "math.log(2 * d)"),
            (
                "sign of the mix loss",
                "_charge",
                "least - temperature * (math.log(after) - math.log(before))",
                "least + temperature * (math.log(after) - math.log(before))",
            ),
            (
                "abstains with |ȳ|",
                "_decide",
                "distributions[i, int(mean > 0.0)] = abs(mean)\ndistributions[i, 2] = 1.0 - abs(mean)",
                "distributions[i, int(mean > 0.0)] = 1.0 - abs(mean)\ndistributions[i, 2] = abs(mean)",
            ),
            ("invalid truth charged", "_charge", "loss[:] = 0.5", "loss[:] = 0.0"),
        ),
    ),
    Errors(
        concept="boosting",
        home="AdaBoostOlm",
        laws=(
            "test_adaboost_trace",
            "test_row_bounds_hold",
            "test_few_features_do_not_depend_on_the_scale_of_contexts",
        ),
        errors=(
            (
                "sign of the log-weight update",
                "_learn",
                "float(leading_rival(rounds.eligible, t, s, NO_LABEL) != y)",
                "-float(leading_rival(rounds.eligible, t, s, NO_LABEL) != y)",
            ),
            ("every member answers as the last one", "_scores", "scores.append(s)", "scores = [s] * (i + 1)"),
            ("features not divided by X", "_views", "few / self.problem.norm_bound", "few"),
        ),
    ),
    Errors(
        concept="random features",
        home="random_features",
        laws=("test_random_features_are_distinct_and_reproducible",),
        errors=(
            ("a feature twice", "random_features", "last if drawn in chosen else drawn", "drawn"),
            ("the last feature too rarely", "random_features", "last + 1", "last"),
            ("the seed ignored", "random_features", 'f"{seed}/{i}/{last}"', 'f"{i}/{last}"'),
            ("the same features for all", "random_features", 'f"{seed}/{i}/{last}"', 'f"{seed}/{last}"'),
        ),
    ),
    Errors(
        concept="weak learners",
        home="CostRegression",
        laws=(
            "test_weak_learner_votes_for_the_cheapest_label",
            "test_cost_regression_is_ridge_regression_of_the_advantages",
            "test_folklore_weak_learner_is_folklore_of_its_features",
            "test_cost_perceptron_moves_by_its_cost",
        ),
        errors=(
            ("sign of the advantage", "_regress", "total - K * costs[k]", "K * costs[k] - total"),
            ("costs in place of advantages", "_regress", "total - K * costs[k]", "-costs[k]"),
            (
                "the gain without the 1",
                "_regress",
                "gain, scale, total = np.zeros(n), 1.0, costs.sum()",
                "gain, scale, total = np.zeros(n), 0.0, costs.sum()",
            ),
            ("the likeliest label", "_cheapest", "advantage[k] -= sigma[y] * costs[y, k]", "advantage[k] = sigma[k]"),
            ("costs transposed", "_cheapest", "costs[y, k]", "costs[k, y]"),
            ("regularization B/R", "FewFeaturesFolklore.start", "2.0 * _NORM_BOUND", "_NORM_BOUND"),
            ("the wrong label loses", "CostPerceptron.learn", "memory[:, named] -= step", "memory[:, 0] -= step"),
        ),
    ),
    Errors(
        concept="boosting regression",
        home="BoostReg",
        laws=(
            "test_adaboost_trace",
            "test_boosting_regression_trace",
        ),
        errors=(
            ("E13, the costs' sign", "costs_of", "sigma[k] - sigma[y]", "sigma[y] - sigma[k]"),
            (
                "E13, the costs' indices",
                "costs_of",
                "result[y, k] = (sigma[k] - sigma[y] + 1.0) / K",
                "result[k, y] = (sigma[k] - sigma[y] + 1.0) / K",
            ),
            ("correct and wrong swapped", "learn", "named != y", "named == y"),
            (
                "log odds not halved",
                "regressors",
                "(s[named] - _log_sum_of_others(s, named)) / 2.0",
                "s[named] - _log_sum_of_others(s, named)",
            ),
        ),
    ),
)
