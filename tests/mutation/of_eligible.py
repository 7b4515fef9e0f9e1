"""Deliberate errors in decisions among eligible labels, in rewards, and in labels that are added."""

from tests.mutation.mutation import Errors

ELIGIBLE = (
    Errors(
        concept="eligible labels",
        home="narrow",
        laws=(
            "test_subsets_have_distributions",
            "test_subset_follows_the_rule_of_a_smaller_learner",
            "test_updates_leave_other_labels_alone",
        ),
        errors=(
            ("scores of other labels kept", "narrow", "eligible[i, k]", "True"),
            ("eligible labels from the front", "widen", "numbers[k] = numbers[left]", "numbers[k] = numbers[k]"),
            ("probabilities of other labels kept", "widen", "numbers[k] = 0.0", "pass"),
            ("place counts every label", "place_of", "int(eligible[i, k])", "1"),
            ("labels by their place", "label_at", "not eligible[i, label]", "False"),
        ),
    ),
    Errors(
        concept="rivals",
        home="leading_rival",
        laws=("test_updates_leave_other_labels_alone",),
        errors=(
            (
                "rivals that were not eligible",
                "leading_rival",
                "k != label and eligible[i, k] and (best < 0 or scores[k] > scores[best])",
                "k != label and (best < 0 or scores[k] > scores[best])",
            ),
        ),
    ),
    Errors(
        concept="conditioning",
        home="condition",
        laws=("test_subsets_have_distributions",),
        errors=(
            ("not divided by the mass", "condition", "distribution[k] / total", "distribution[k]"),
            ("nothing if there is no mass", "condition", "1.0 / n", "0.0"),
        ),
    ),
    Errors(
        concept="ordinal subsets",
        home="FenchelYoungOrdinal",
        laws=("test_subsets_have_distributions", "test_restricted_mean_is_the_best_of_the_hull"),
        errors=(
            ("levels below the lowest one", "_write_mean", "room.mean[:first] = 1.0", ""),
            ("levels above the highest one", "_write_mean", "room.mean[last:] = 0.0", ""),
            ("first entry in place of the mean", "_average_between", "mean[last:level].mean()", "mean[last]"),
        ),
    ),
    Errors(
        concept="coins among eligible labels",
        home="ExploredRounds",
        laws=("test_subsets_have_distributions", "test_coin_among_eligible_labels"),
        errors=(
            ("exploration shared with other labels", "decide_unchecked", "np.where(among, shares, 0.0)", "shares"),
            ("K in place of K'", "counts_of", "eligible.sum(axis=1)", "np.full(len(eligible), n_labels)"),
        ),
    ),
    Errors(
        concept="rewards",
        home="teach_softmax",
        laws=("test_models_match_the_plain_ones",),
        errors=(
            ("only right or wrong in the gradient", "_write_gradient", "served - reward", "served - (reward >= 1.0)"),
            ("half the loss", "_log_loss", "-reward * math.log(chance)", "-math.log(chance)"),
            ("other labels move", "teach_softmax", "widen(rounds.eligible, t, q)", ""),
        ),
    ),
    Errors(
        concept="growth",
        home="with_more_labels",
        laws=(
            "test_growth_keeps_what_was_learnt",
            "test_rounds_before_growth_leave_new_labels_alone",
            "test_fixed_labels_are_refused",
        ),
        errors=(
            (
                "a new state",
                "with_more_labels",
                "array[tuple(slice(length) for length in old[name].shape)] = old[name]",
                "",
            ),
            ("fixed labels grow", "grown", "not learner.labels_grow", "False"),
            (
                "new labels eligible in earlier rounds",
                "of_fewer_labels",
                "np.ones((n, n_labels), np.bool_)",
                "np.ones((n, K), np.bool_)",
            ),
        ),
    ),
)
