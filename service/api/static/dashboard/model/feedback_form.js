// What feedback means, how long it is accepted, and what silence becomes.

import { Choice, Field, NumberText } from "../parts/forms.js";
import { html } from "../parts/html.js";
import { numberOf } from "../parts/inputs.js";
import { PatchForm } from "./patch_form.js";

const REWARDS = [["accuracy", "Right or wrong answers"], ["clicks", "Clicks only"], ["value", "A value from 0 to 1"]];
const SILENCES = [["drop", "Nothing: silence teaches nothing"], ["incorrect", "A wrong answer, or no click"], ["reward", "A reward"]];
const LEARNS = [["on_arrival", "At once"], ["at_window_close", "When the window closes"]];
const LATES = [["reject", "Refuse it"], ["accept", "Accept it for another hour"]];
const FIELDS = ["reward", "on_expiry.reward", "on_expiry", "window_seconds", "learn", "late_feedback"];

function start({ reward, on_expiry: silence, window_seconds: window, learn, late_feedback: late }) {
  const isWord = typeof silence === "string";
  return { reward, silence: isWord ? silence : "reward", worth: isWord ? "0.5" : String(silence.reward), window: String(window), learn, late };
}

const bodyOf = ({ reward, silence, worth, window, learn, late }) => ({
  reward,
  on_expiry: silence === "reward" ? { reward: numberOf(worth, "on_expiry.reward") } : silence,
  window_seconds: numberOf(window, "window_seconds"),
  learn,
  late_feedback: late,
});

// Silence and the window are chosen together, and the service chooses `learn` unless it is sent.
const complete = (body, { window_seconds, learn }) => ("on_expiry" in body ? { ...body, window_seconds, learn } : body);

export const FeedbackForm = (props) => html`
  <${PatchForm} ...${props} id="f-feedback" title="Feedback" fields=${FIELDS} start=${start} bodyOf=${bodyOf} complete=${complete}>
    ${(values, set, errors) => {
      const chooseSilence = (silence) => {
        set("silence")(silence);
        set("learn")(silence === "drop" ? "on_arrival" : "at_window_close");
      };
      return html`
        <div class="grid">
          <${Field} id="meaning" label="Rewards are" error=${errors.reward}><${Choice} value=${values.reward} set=${set("reward")} options=${REWARDS} /><//>
          <${Field} id="silence" label="A prediction without feedback becomes" error=${errors.on_expiry}><${Choice} value=${values.silence} set=${chooseSilence} options=${SILENCES} /><//>
          ${values.silence === "reward" && html`<${Field} id="worth" label="The reward of silence" error=${errors["on_expiry.reward"]}><${NumberText} value=${values.worth} set=${set("worth")} /><//>`}
          <${Field} id="window" label="Window in seconds" hint="How long a prediction accepts feedback." error=${errors.window_seconds}><${NumberText} value=${values.window} set=${set("window")} /><//>
          <${Field} id="learn" label="Feedback counts" error=${errors.learn}><${Choice} value=${values.learn} set=${set("learn")} options=${LEARNS} /><//>
          <${Field} id="late-feedback" label="Feedback after the window" error=${errors.late_feedback}><${Choice} value=${values.late} set=${set("late")} options=${LATES} /><//>
        </div>`;
    }}
  <//>`;
