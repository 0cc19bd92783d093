// Passkeys. A form with data-passkey asks the browser for a credential and sends it in the field of that name.
// Such forms are hidden until this script finds that the browser can do it: everything else works without it.
"use strict";
(() => {
  const decode = (text) =>
    Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const encode = (buffer) => {
    let raw = "";
    for (const byte of new Uint8Array(buffer)) raw += String.fromCharCode(byte);
    return btoa(raw).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const decodeIds = (list) => (list || []).map((one) => ({ ...one, id: decode(one.id) }));

  const create = async (options, email) => {
    if (email && email.value) options.user = { ...options.user, name: email.value, displayName: email.value };
    const made = await navigator.credentials.create({
      publicKey: {
        ...options,
        challenge: decode(options.challenge),
        user: { ...options.user, id: decode(options.user.id) },
        excludeCredentials: decodeIds(options.excludeCredentials),
      },
    });
    return answer(made, {
      attestationObject: encode(made.response.attestationObject),
      transports: made.response.getTransports ? made.response.getTransports() : [],
    });
  };
  const get = async (options) => {
    const found = await navigator.credentials.get({
      publicKey: {
        ...options,
        challenge: decode(options.challenge),
        allowCredentials: decodeIds(options.allowCredentials),
      },
    });
    return answer(found, {
      authenticatorData: encode(found.response.authenticatorData),
      signature: encode(found.response.signature),
      userHandle: found.response.userHandle ? encode(found.response.userHandle) : null,
    });
  };
  const answer = (credential, response) => ({
    id: credential.id,
    rawId: encode(credential.rawId),
    type: credential.type,
    response: { ...response, clientDataJSON: encode(credential.response.clientDataJSON) },
  });

  const words = (error) =>
    error.name === "InvalidStateError"
      ? "This device has a passkey for this account already."
      : "No passkey was used. Try again, or choose another way.";

  const run = async (form) => {
    const problem = form.querySelector("[data-problem]");
    problem.hidden = true;
    try {
      const work = form.dataset.passkey === "create" ? create : get;
      form.elements.credential.value = JSON.stringify(await work(JSON.parse(form.dataset.options), form.elements.email));
    } catch (error) {
      problem.textContent = words(error);
      problem.hidden = false;
      return;
    }
    form.submit();
  };

  if (!window.PublicKeyCredential || !navigator.credentials) return;
  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      run(form);
    });
  }
})();
