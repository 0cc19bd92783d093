// A real OpenID Connect provider: node provider.mjs LIBRARY PORT CALLBACK, where LIBRARY is the file of `oidc-provider`.
// The name typed on its sign-in page is the subject; `/vouch?subject=&email=&verified=` chooses what it says about one.
import { pathToFileURL } from 'node:url';

const [library, port, callback] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(library));

const vouched = new Map();
const client = (id, more) => ({
  client_id: id,
  redirect_uris: [callback],
  application_type: 'native',
  grant_types: ['authorization_code'],
  response_types: ['code'],
  ...more,
});

const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    client('gateway', { client_secret: 'a secret of the tests' }),
    client('public-gateway', { token_endpoint_auth_method: 'none' }),
  ],
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  pkce: { required: () => true },
  cookies: { keys: ['for tests'] },
  async findAccount(_context, subject) {
    return { accountId: subject, claims: async () => ({ sub: subject, ...vouched.get(subject) }) };
  },
});
provider.use(async (context, next) => {
  if (context.path !== '/vouch') return next();
  const { subject, email, verified } = context.query;
  vouched.set(subject, { email, email_verified: verified === 'true' });
  context.status = 204;
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
